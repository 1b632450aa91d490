//! Outcomes: locking an operation, and writing how it ended or that this is unknown.

use std::time::Duration;

use sqlx::PgConnection;

use super::claim::Claimed;
use crate::operations::State;
use foundation::error::Result;
use foundation::id::{AccountId, OperationId, PaymentId};
use providers::{FailureCode, ProviderResponse};

/// A locked operation, as read before its outcome is written.
#[derive(Debug)]
pub struct Locked {
    pub state: State,
    /// The provider's reference for the transaction, if it succeeded.
    pub provider_ref: Option<String>,
    /// The fencing token of the latest claim.
    pub fence: i64,
    /// Whether the lease of that claim has not expired.
    pub is_held: bool,
}

/// Locks an operation to write its outcome. The caller has locked its payment.
///
/// # Errors
/// Database errors only.
pub async fn lock(tx: &mut PgConnection, id: OperationId) -> Result<Locked> {
    Ok(sqlx::query_as!(
        Locked,
        r#"SELECT state, provider_ref, fence, coalesce(lease_until >= clock_timestamp(), false) AS "is_held!"
           FROM operations WHERE id = $1 FOR NO KEY UPDATE"#,
        id.uuid()
    )
    .fetch_one(tx)
    .await?)
}

/// Locks the operation that charges a payment; `None` while the card is being saved that it will charge. The caller has
/// locked the payment.
///
/// # Errors
/// Database errors only.
pub async fn lock_charge(
    tx: &mut PgConnection,
    account: AccountId,
    payment: PaymentId,
) -> Result<Option<(OperationId, Locked)>> {
    let id = sqlx::query_scalar!(
        r#"SELECT id AS "id: OperationId" FROM operations
           WHERE account_id = $1 AND payment_id = $2 AND kind IN ('sale', 'authorize')"#,
        account.uuid(),
        payment.uuid(),
    )
    .fetch_optional(&mut *tx)
    .await?;
    let Some(id) = id else { return Ok(None) };
    Ok(Some((id, lock(tx, id).await?)))
}

/// How an operation ends.
pub(super) struct Outcome<'a> {
    /// A final state.
    pub(super) state: State,
    /// The provider's reference for the transaction.
    pub(super) provider_ref: Option<&'a str>,
    /// Why it failed, for operators.
    pub(super) failure: Option<&'a str>,
    /// Why it failed, for the API client.
    pub(super) failure_code: Option<FailureCode>,
}

impl<'a> Outcome<'a> {
    pub(super) fn of(response: &'a ProviderResponse) -> Self {
        let outcome = |state| Self { state, provider_ref: None, failure: None, failure_code: None };
        match response {
            ProviderResponse::Charged { provider_ref, .. }
            | ProviderResponse::Done { provider_ref }
            | ProviderResponse::Stored { provider_ref, .. } => {
                Self { provider_ref: Some(provider_ref), ..outcome(State::Succeeded) }
            }
            ProviderResponse::Declined { decline, .. } => Self {
                failure: Some(&decline.code),
                failure_code: Some(FailureCode::ProviderRefused),
                ..outcome(State::Declined)
            },
            ProviderResponse::Refused { code, reason } => {
                Self { failure: Some(reason), failure_code: Some(*code), ..outcome(State::Failed) }
            }
            // The charge belongs to the anomaly and its reversal, so the operation gets no provider_ref.
            ProviderResponse::Mismatched { .. } => Self {
                failure: Some("the provider charged a different amount than requested"),
                failure_code: Some(FailureCode::AmountMismatch),
                ..outcome(State::Failed)
            },
            ProviderResponse::Challenged { .. } => outcome(State::Unknown),
        }
    }
}

/// Writes the outcome of an operation, regardless of the fence: an outcome that a late worker knows is still true.
///
/// # Errors
/// Database errors only.
pub async fn finish(tx: &mut PgConnection, id: OperationId, response: &ProviderResponse) -> Result<()> {
    let outcome = Outcome::of(response);
    debug_assert!(outcome.state.is_final());
    // The single-use token and the payer's address have no further use.
    sqlx::query!(
        "UPDATE operations SET state = $2, provider_ref = $3, failure = $4, failure_code = $5, finished_at = clock_timestamp(),
                next_push_at = NULL, lease_until = NULL, upstream_token = NULL, payer_address = NULL
         WHERE id = $1",
        id.uuid(),
        outcome.state as State,
        outcome.provider_ref,
        outcome.failure,
        outcome.failure_code as Option<FailureCode>,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// How to continue with an operation of unknown outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Try again after this delay.
    After(Duration),
    /// An operator must determine the outcome.
    ManualReview,
}

/// Releases an operation with its outcome unknown. Changes nothing if the claim was lost.
///
/// # Errors
/// Database errors only.
pub async fn leave_unknown(tx: &mut PgConnection, claimed: &Claimed, retry: Retry, found_nothing: bool) -> Result<()> {
    let after = match retry {
        Retry::After(delay) => Some(delay),
        Retry::ManualReview => None,
    };
    sqlx::query!(
        "UPDATE operations SET state = 'unknown', lease_until = NULL, not_found = CASE WHEN $4 THEN not_found + 1 ELSE 0 END,
                next_push_at = clock_timestamp() + make_interval(secs => $3)
         WHERE id = $1 AND fence = $2 AND finished_at IS NULL",
        claimed.id.uuid(),
        claimed.fence,
        after.map(|delay| delay.as_secs_f64()),
        found_nothing,
    )
    .execute(tx)
    .await?;
    Ok(())
}

//! Refunds: money on its way back to the card. While one is pending, its amount is reserved on the payment.

use serde::Serialize;
use sqlx::PgConnection;
use utoipa::ToSchema;

use super::Payment;
use crate::accounts::Mode;
use crate::error::{Error, Result};
use crate::id::{AccountId, KeyId, PaymentId, RefundId};
use crate::money::Currency;
use crate::providers::FailureCode;
use crate::schema;
use crate::time::Timestamp;

/// How far a refund has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, sqlx::Type, ToSchema)]
#[sqlx(type_name = "refund_status", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum RefundStatus {
    /// Accepted, and not known to have arrived.
    Pending,
    /// The money went back.
    Succeeded,
    /// It did not, and is free again.
    Failed,
}

/// A refund as stored.
#[derive(Clone, Debug)]
pub struct Refund {
    /// Its id.
    pub id: RefundId,
    /// Whose money goes back.
    pub payment_id: PaymentId,
    /// How much, in the payment's currency.
    pub amount: i64,
    /// How much was asked for; none is all that was left.
    pub amount_asked: Option<i64>,
    /// The merchant's own id of it, unique for its payment.
    pub external_id: Option<String>,
    /// How far it has come.
    pub status: RefundStatus,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// Why it failed.
    pub failure_code: Option<FailureCode>,
    /// The key that it was asked for with; none if the system itself gives the money back.
    pub requested_by: Option<KeyId>,
}

/// The public JSON of a refund (docs/api.md, Refunds).
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Refund, description = "Money on its way back to the card.")]
pub struct RefundView {
    id: RefundId,
    #[schema(schema_with = schema::refund)]
    object: &'static str,
    livemode: bool,
    created_at: Timestamp,
    payment_id: PaymentId,
    #[schema(schema_with = schema::amount)]
    amount: i64,
    currency: Currency,
    status: RefundStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Your own id of it, unique for its payment.
    external_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Of one that failed: why.
    failure_code: Option<FailureCode>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The same for people.
    failure_message: Option<&'static str>,
}

impl RefundView {
    /// Renders a refund of this payment.
    pub fn new(refund: &Refund, payment: &Payment) -> Self {
        Self {
            id: refund.id,
            object: "refund",
            livemode: payment.mode == Mode::Live,
            created_at: refund.created_at,
            payment_id: refund.payment_id,
            amount: refund.amount,
            currency: payment.currency,
            status: refund.status,
            external_id: refund.external_id.clone(),
            failure_code: refund.failure_code,
            failure_message: refund.failure_code.map(FailureCode::message),
        }
    }
}

/// Writes a refund that is about to be sent. Its amount is reserved on the payment in the same transaction.
///
/// # Errors
/// Only the database's.
pub async fn insert(tx: &mut PgConnection, account: AccountId, refund: &Refund) -> Result<()> {
    sqlx::query!(
        "INSERT INTO refunds (id, account_id, payment_id, amount, created_at, amount_asked, external_id, requested_by_key)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        refund.id.uuid(),
        account.uuid(),
        refund.payment_id.uuid(),
        refund.amount,
        refund.created_at,
        refund.amount_asked,
        refund.external_id,
        refund.requested_by.map(KeyId::uuid),
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// The refund of a locked payment that has this id of the merchant's.
///
/// # Errors
/// Only the database's.
pub async fn find_by_external_id(
    tx: &mut PgConnection,
    account: AccountId,
    payment: PaymentId,
    external_id: &str,
) -> Result<Option<Refund>> {
    let query = sqlx::query_as!(
        Refund,
        "SELECT id, payment_id, amount, amount_asked, external_id, status, created_at, failure_code,
                requested_by_key AS requested_by
         FROM refunds
         WHERE account_id = $1 AND payment_id = $2 AND external_id = $3",
        account.uuid(),
        payment.uuid(),
        external_id,
    );
    Ok(query.fetch_optional(tx).await?)
}

/// Writes the end of a refund, and answers its amount.
///
/// # Errors
/// [`Error::Internal`] if it has ended before.
pub async fn finish(
    tx: &mut PgConnection,
    account: AccountId,
    id: RefundId,
    status: RefundStatus,
    failure_code: Option<FailureCode>,
    now: Timestamp,
) -> Result<i64> {
    sqlx::query_scalar!(
        "UPDATE refunds SET status = $3, finished_at = $4, failure_code = $5
         WHERE account_id = $1 AND id = $2 AND status = 'pending' RETURNING amount",
        account.uuid(),
        id.uuid(),
        status as RefundStatus,
        now,
        failure_code as Option<FailureCode>,
    )
    .fetch_optional(tx)
    .await?
    .ok_or_else(|| Error::internal(format!("{id} has ended before")))
}

/// The refunds of a payment that is locked, or read in the same snapshot; in the order made.
///
/// # Errors
/// Only the database's.
pub async fn of_locked(tx: &mut PgConnection, payment: &Payment) -> Result<Vec<Refund>> {
    if !payment.has_refunds {
        return Ok(vec![]);
    }
    of_page(tx, payment.account_id, std::slice::from_ref(payment)).await
}

/// The refunds of some payments that were read in the same snapshot; of each in the order made.
///
/// # Errors
/// Only the database's.
pub async fn of_page(db: &mut PgConnection, account: AccountId, payments: &[Payment]) -> Result<Vec<Refund>> {
    let ids: Vec<_> = payments.iter().filter(|p| p.has_refunds).map(|p| p.id.uuid()).collect();
    // Joined, and put in order here: of a list of payments in one order the planner makes a walk through all refunds of the
    // account.
    let mut rows = sqlx::query_as!(
        Refund,
        "SELECT r.id, r.payment_id, r.amount, r.amount_asked, r.external_id, r.status, r.created_at, r.failure_code,
                r.requested_by_key AS requested_by
         FROM unnest($2::uuid[]) AS p(id)
         JOIN refunds r ON r.account_id = $1 AND r.payment_id = p.id",
        account.uuid(),
        &ids,
    )
    .fetch_all(db)
    .await?;
    rows.sort_by_key(|refund| refund.id);
    Ok(rows)
}

//! Inserting operations.

use sqlx::PgConnection;

use super::types::{FIRST_PUSH_AFTER, Origin, Subject};
use foundation::error::Result;
use foundation::id::{AccountId, KeyId, OperationId, ProviderAccountId, RefundId};
use foundation::money::Money;
use providers::{OperationKind, Source};

/// An operation to insert.
#[derive(Debug)]
pub struct NewOperation<'a> {
    /// Generated before the transaction.
    pub id: OperationId,
    pub account_id: AccountId,
    pub provider_account_id: ProviderAccountId,
    pub subject: Subject,
    pub refund_id: Option<RefundId>,
    pub kind: OperationKind,
    /// `None` for saving a card.
    pub money: Option<Money>,
    /// `None` for an operation that follows a charge.
    pub source: Option<&'a Source>,
    /// The provider's reference for the charge that a follow-up operation changes.
    pub target_ref: Option<&'a str>,
    /// The token in our URL of a challenge; `None` if no cardholder is present.
    pub action_token: Option<&'a str>,
    /// Whether the system itself creates it, not a client's request.
    pub by_system: bool,
    pub origin: &'a Origin,
}

/// Inserts an operation, in the same transaction as the payment, refund or card that it is for.
///
/// # Errors
/// Database errors only.
pub async fn insert(tx: &mut PgConnection, new: &NewOperation<'_>) -> Result<()> {
    let (payment, payment_method) = match new.subject {
        Subject::Payment(id) => (Some(id.uuid()), None),
        Subject::PaymentMethod(id) => (None, Some(id.uuid())),
    };
    let (token, card) = match new.source {
        Some(Source::Token(token)) => (Some(token.expose().as_str()), None),
        Some(Source::Card(card)) => (None, Some(card.as_str())),
        None => (None, None),
    };
    sqlx::query!(
        "INSERT INTO operations
            (id, account_id, payment_id, payment_method_id, refund_id, provider_account_id, kind, reference, amount, currency,
             upstream_token, card_ref, target_ref, next_push_at, reply_to, request_id, created_at, action_token, by_system,
             requested_by_key)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13,
                 clock_timestamp() + make_interval(secs => $14), $15, $16, clock_timestamp(), $17, $18, $19)",
        new.id.uuid(),
        new.account_id.uuid(),
        payment,
        payment_method,
        new.refund_id.map(RefundId::uuid),
        new.provider_account_id.uuid(),
        new.kind as OperationKind,
        new.id.to_string(),
        new.money.map(|money| money.minor),
        new.money.map(|money| money.currency.code()),
        token,
        card,
        new.target_ref,
        FIRST_PUSH_AFTER.as_secs_f64(),
        new.origin.reply_to,
        new.origin.request_id,
        new.action_token,
        new.by_system,
        new.origin.requested_by.map(KeyId::uuid),
    )
    .execute(tx)
    .await?;
    Ok(())
}

//! Inserting operations.

use sqlx::PgConnection;

use super::types::{FIRST_PUSH_AFTER, Origin, Subject};
use foundation::db::column;
use foundation::error::Result;
use foundation::id::{AccountId, KeyId, OperationId, PaymentId, PaymentMethodId, ProviderAccountId, RefundId};
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
    /// Whether operations that someone waits for are executed before it.
    pub background: bool,
    pub origin: &'a Origin,
}

/// Inserts operations, in the same transaction as the payments, refunds or cards that they are for.
///
/// # Errors
/// Database errors only.
pub async fn insert(tx: &mut PgConnection, new: &[NewOperation<'_>]) -> Result<()> {
    sqlx::query!(
        "INSERT INTO operations
            (id, account_id, payment_id, payment_method_id, refund_id, provider_account_id, kind, reference, amount, currency,
             upstream_token, card_ref, target_ref, next_push_at, reply_to, request_id, created_at, action_token, by_system,
             background, payer_address, requested_by_key)
         SELECT id, account_id, payment_id, payment_method_id, refund_id, provider_account_id, kind, reference, amount, currency,
             upstream_token, card_ref, target_ref, clock_timestamp() + make_interval(secs => $20), reply_to, request_id,
             clock_timestamp(), action_token, by_system, background, payer_address, requested_by_key
         FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[], $5::uuid[], $6::uuid[], $7::operation_kind[],
                $8::text[], $9::bigint[], $10::text[], $11::text[], $12::text[], $13::text[], $14::text[], $15::text[],
                $16::text[], $17::bool[], $18::bool[], $19::text[], $21::uuid[])
            AS n (id, account_id, payment_id, payment_method_id, refund_id, provider_account_id, kind, reference, amount,
                currency, upstream_token, card_ref, target_ref, reply_to, request_id, action_token, by_system,
                background, payer_address, requested_by_key)",
        &column(new, |new| new.id.uuid()),
        &column(new, |new| new.account_id.uuid()),
        &column(new, |new| new.subject.payment().map(PaymentId::uuid)) as _,
        &column(new, |new| new.subject.payment_method().map(PaymentMethodId::uuid)) as _,
        &column(new, |new| new.refund_id.map(RefundId::uuid)) as _,
        &column(new, |new| new.provider_account_id.uuid()),
        &column(new, |new| new.kind) as &[OperationKind],
        &column(new, |new| new.id.to_string()),
        &column(new, |new| new.money.map(|money| money.minor)) as _,
        &column(new, |new| new.money.map(|money| money.currency.code())) as _,
        &column(new, |new| new.source.and_then(Source::token)) as _,
        &column(new, |new| new.source.and_then(Source::card)) as _,
        &column(new, |new| new.target_ref) as _,
        &column(new, |new| new.origin.reply_to.as_deref()) as _,
        &column(new, |new| new.origin.request_id.as_deref()) as _,
        &column(new, |new| new.action_token) as _,
        &column(new, |new| new.by_system),
        &column(new, |new| new.background),
        &column(new, |new| new.origin.payer_address.as_deref()) as _,
        FIRST_PUSH_AFTER.as_secs_f64(),
        &column(new, |new| new.origin.requested_by.map(KeyId::uuid)) as _,
    )
    .execute(tx)
    .await?;
    Ok(())
}

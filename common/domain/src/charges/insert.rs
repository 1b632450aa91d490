//! Intents: inserting operations, and payments with the operations that charge them.

use sqlx::PgConnection;
use uuid::Uuid;

use crate::idempotency::IdempotencyKey;
use crate::operations::{FIRST_PUSH_AFTER, Origin, Subject};
use crate::payments::{Payment, Status};
use foundation::db::column;
use foundation::error::Result;
use foundation::id::{
    AccountId, CustomerId, InvoiceId, KeyId, OperationId, PaymentId, PaymentLinkId, PaymentMethodId, ProviderAccountId,
    RefundId,
};
use foundation::merchant_data::Metadata;
use foundation::money::Money;
use foundation::time::Timestamp;
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

impl<'a> NewOperation<'a> {
    /// An operation of a payment, which follows its charge if there is one.
    pub fn of_payment(
        id: OperationId,
        payment: &'a Payment,
        kind: OperationKind,
        amount: i64,
        origin: &'a Origin,
    ) -> Self {
        Self {
            id,
            account_id: payment.account_id,
            // Where the charge was made, even if the account's new payments now go elsewhere.
            provider_account_id: payment.provider_account_id,
            subject: Subject::Payment(payment.id),
            refund_id: None,
            kind,
            money: Some(Money { minor: amount, currency: payment.currency }),
            source: None,
            target_ref: payment.provider_ref.as_deref(),
            action_token: None,
            by_system: false,
            background: false,
            origin,
        }
    }
}

/// A payment to insert, with the operation that charges it, if that can begin.
#[derive(Debug)]
pub struct Intent {
    pub payment: Payment,
    /// The merchant's URL to which the cardholder returns after a challenge.
    pub return_url: Option<String>,
    /// The code of the language that the payer chose on our page.
    pub payer_language: Option<String>,
    /// The operation of the first step.
    pub operation: OperationId,
    pub first_step: FirstStep,
    /// The token in our URL of a challenge; `None` if the provider requires none.
    pub action_token: Option<String>,
    pub origin: Origin,
    /// The idempotency key to claim; if it was used before, nothing is inserted.
    pub key: Option<IdempotencyKey>,
}

/// What a payment begins with.
#[derive(Debug)]
pub enum FirstStep {
    /// The payment is charged.
    Charge(Source),
    /// Its card is saved, which the caller begins; the charge follows.
    SaveCard(CardToSave),
}

/// A card that is saved before it is charged.
#[derive(Debug)]
pub struct CardToSave {
    pub id: PaymentMethodId,
    pub customer: CustomerId,
    pub token: Source,
}

impl Intent {
    /// The operation that charges the payment, if that is its first step.
    fn charge(&self) -> Option<NewOperation<'_>> {
        let FirstStep::Charge(source) = &self.first_step else { return None };
        let payment = &self.payment;
        let kind = if payment.capture { OperationKind::Sale } else { OperationKind::Authorize };
        Some(NewOperation {
            source: Some(source),
            action_token: self.action_token.as_deref(),
            // No client waits for a collection.
            background: payment.is_collection(),
            ..NewOperation::of_payment(self.operation, payment, kind, payment.amount_requested, &self.origin)
        })
    }
}

/// Inserts operations, in the same transaction as the refunds or cards that they are for.
///
/// # Errors
/// Database errors only.
pub async fn insert(tx: &mut PgConnection, operations: &[NewOperation<'_>]) -> Result<()> {
    insert_with_payments(tx, &[], operations).await?;
    Ok(())
}

/// Inserts payments with their operations and idempotency keys, and returns the ids of the payments. Left out are those
/// whose key was used before.
///
/// # Errors
/// The database's; then none was inserted.
pub async fn insert_intents(db: &mut PgConnection, intents: &[Intent]) -> sqlx::Result<Vec<Uuid>> {
    let charges: Vec<_> = intents.iter().filter_map(Intent::charge).collect();
    insert_with_payments(db, intents, &charges).await
}

/// The text of the statement, apart from its 48 parameters.
macro_rules! insert_with_payments {
    ($($parameters:tt)*) => {
        sqlx::query_scalar!(
            r#"WITH intent AS MATERIALIZED (
                SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[], $5::uuid[], $6::uuid[], $7::uuid[],
                    $8::payment_status[], $9::bool[], $10::text[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[],
                    $15::bigint[], $16::text[], $17::text[], $18::int2[], $19::int2[], $20::text[], $21::timestamptz[],
                    $22::text[], $23::text[], $24::text[], $25::text[], $26::bytea[], $27::text[])
                AS i (id, account_id, provider_account_id, customer_id, payment_method_id, invoice_id, payment_link_id, status,
                    capture, currency, amount, amount_base, amount_surcharge, amount_tax, amount_tip, card_brand, card_last4,
                    card_exp_month, card_exp_year, return_url, created_at, metadata, external_id, description, key,
                    request_hash, payer_language)),
             claimed AS (
                INSERT INTO idempotency_keys (account_id, key, request_hash, payment_id, created_at)
                SELECT account_id, key, request_hash, id, created_at FROM intent
                WHERE key IS NOT NULL ORDER BY account_id, key
                ON CONFLICT (account_id, key) DO NOTHING RETURNING payment_id),
             refused AS MATERIALIZED (
                SELECT id FROM intent WHERE key IS NOT NULL AND id NOT IN (SELECT payment_id FROM claimed)),
             payment AS (
                INSERT INTO payments
                    (id, account_id, provider_account_id, customer_id, payment_method_id, invoice_id, payment_link_id, status,
                     capture, currency, amount_requested, amount, amount_base, amount_surcharge, amount_tax, amount_tip,
                     card_brand, card_last4, card_exp_month, card_exp_year, return_url, created_at, metadata, external_id,
                     description, payer_language)
                SELECT id, account_id, provider_account_id, customer_id, payment_method_id, invoice_id, payment_link_id, status,
                    capture, currency, amount, amount, amount_base, amount_surcharge, amount_tax, amount_tip,
                    card_brand, card_last4, card_exp_month, card_exp_year, return_url, created_at, metadata::jsonb, external_id,
                    description, payer_language
                FROM intent WHERE id NOT IN (SELECT id FROM refused) RETURNING id),
             operation AS (
                INSERT INTO operations
                    (id, account_id, provider_account_id, payment_id, payment_method_id, refund_id, kind, reference, amount,
                     currency, upstream_token, card_ref, target_ref, action_token, by_system, background, next_push_at,
                     reply_to, request_id, payer_address, requested_by_key, created_at)
                SELECT id, account_id, provider_account_id, payment_id, payment_method_id, refund_id, kind, reference, amount,
                    currency, upstream_token, card_ref, target_ref, action_token, by_system, background,
                    clock_timestamp() + make_interval(secs => $48), reply_to, request_id, payer_address, requested_by_key,
                    clock_timestamp()
                FROM unnest($28::uuid[], $29::uuid[], $30::uuid[], $31::uuid[], $32::uuid[], $33::uuid[], $34::operation_kind[],
                    $35::text[], $36::bigint[], $37::text[], $38::text[], $39::text[], $40::text[], $41::text[], $42::bool[],
                    $43::bool[], $44::text[], $45::text[], $46::text[], $47::uuid[])
                AS o (id, account_id, provider_account_id, payment_id, payment_method_id, refund_id, kind, reference, amount,
                    currency, upstream_token, card_ref, target_ref, action_token, by_system, background, reply_to, request_id,
                    payer_address, requested_by_key)
                WHERE payment_id IS NULL OR payment_id NOT IN (SELECT id FROM refused))
             SELECT id AS "id!: Uuid" FROM payment"#,
            $($parameters)*
        )
    };
}

/// The only statement that inserts payments and operations. Operations of payments that are left out are left out too.
/// Keys are claimed in one order, because a statement waits for a concurrent one that claims the same key.
async fn insert_with_payments(
    db: &mut PgConnection,
    intents: &[Intent],
    operations: &[NewOperation<'_>],
) -> sqlx::Result<Vec<Uuid>> {
    insert_with_payments!(
        &column(intents, |intent| intent.payment.id.uuid()),
        &column(intents, |intent| intent.payment.account_id.uuid()),
        &column(intents, |intent| intent.payment.provider_account_id.uuid()),
        &column(intents, |intent| intent.payment.customer_id.map(CustomerId::uuid)) as _,
        &column(intents, |intent| intent.payment.payment_method_id.map(PaymentMethodId::uuid)) as _,
        &column(intents, |intent| intent.payment.invoice_id.map(InvoiceId::uuid)) as _,
        &column(intents, |intent| intent.payment.payment_link_id.map(PaymentLinkId::uuid)) as _,
        &column(intents, |intent| intent.payment.status) as &[Status],
        &column(intents, |intent| intent.payment.capture),
        &column(intents, |intent| intent.payment.currency.code()) as _,
        &column(intents, |intent| intent.payment.amount_requested),
        &column(intents, |intent| intent.payment.amount_base) as _,
        &column(intents, |intent| intent.payment.amount_surcharge) as _,
        &column(intents, |intent| intent.payment.amount_tax) as _,
        &column(intents, |intent| intent.payment.amount_tip) as _,
        &column(intents, |intent| intent.payment.card_brand.as_deref()) as _,
        &column(intents, |intent| intent.payment.card_last4.as_deref()) as _,
        &column(intents, |intent| intent.payment.card_exp_month) as _,
        &column(intents, |intent| intent.payment.card_exp_year) as _,
        &column(intents, |intent| intent.return_url.as_deref()) as _,
        &column(intents, |intent| intent.payment.created_at) as &[Timestamp],
        &column(intents, |intent| intent.payment.metadata.as_ref().map(Metadata::to_json)) as _,
        &column(intents, |intent| intent.payment.external_id.as_deref()) as _,
        &column(intents, |intent| intent.payment.description.as_deref()) as _,
        &column(intents, |intent| intent.key.as_ref().map(IdempotencyKey::text)) as _,
        &column(intents, |intent| intent.key.as_ref().map(IdempotencyKey::request_hash)) as _,
        &column(intents, |intent| intent.payer_language.as_deref()) as _,
        &column(operations, |new| new.id.uuid()),
        &column(operations, |new| new.account_id.uuid()),
        &column(operations, |new| new.provider_account_id.uuid()),
        &column(operations, |new| new.subject.payment().map(PaymentId::uuid)) as _,
        &column(operations, |new| new.subject.payment_method().map(PaymentMethodId::uuid)) as _,
        &column(operations, |new| new.refund_id.map(RefundId::uuid)) as _,
        &column(operations, |new| new.kind) as &[OperationKind],
        &column(operations, |new| new.id.to_string()),
        &column(operations, |new| new.money.map(|money| money.minor)) as _,
        &column(operations, |new| new.money.map(|money| money.currency.code())) as _,
        &column(operations, |new| new.source.and_then(Source::token)) as _,
        &column(operations, |new| new.source.and_then(Source::card)) as _,
        &column(operations, |new| new.target_ref) as _,
        &column(operations, |new| new.action_token) as _,
        &column(operations, |new| new.by_system),
        &column(operations, |new| new.background),
        &column(operations, |new| new.origin.reply_to.as_deref()) as _,
        &column(operations, |new| new.origin.request_id.as_deref()) as _,
        &column(operations, |new| new.origin.payer_address.as_deref()) as _,
        &column(operations, |new| new.origin.requested_by.map(KeyId::uuid)) as _,
        FIRST_PUSH_AFTER.as_secs_f64(),
    )
    .fetch_all(db)
    .await
}

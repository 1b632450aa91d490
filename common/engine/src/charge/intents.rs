//! The intent of a payment: the payment and the operation that charges it.

use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use domain::idempotency::IdempotencyKey;
use domain::operations::{FIRST_PUSH_AFTER, Origin};
use domain::payment_methods::{self, PaymentMethod};
use domain::payments::{Payment, Status};
use foundation::db::{Batcher, Reader, column};
use foundation::id::{CustomerId, InvoiceId, KeyId, OperationId, PaymentLinkId, PaymentMethodId};
use foundation::own_data::Metadata;
use foundation::time::Timestamp;
use providers::{OperationKind, Source};

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
    const fn kind(&self) -> OperationKind {
        if self.payment.capture { OperationKind::Sale } else { OperationKind::Authorize }
    }

    /// What is charged at once.
    const fn charged(&self) -> Option<&Source> {
        match &self.first_step {
            FirstStep::Charge(source) => Some(source),
            FirstStep::SaveCard(_) => None,
        }
    }
}

/// Inserts intents that neither lock nor change another row, and reads what they need. Those that arrive together are
/// inserted with one statement, which commits by itself.
pub struct Intents {
    pub(super) pool: PgPool,
    pub(super) cards: Reader<PaymentMethodId, PaymentMethod>,
    batches: Batcher<Intent, bool>,
}

impl Intents {
    /// Must be called inside a Tokio runtime.
    pub fn start(pool: PgPool) -> Self {
        let batches = Batcher::start(pool.clone(), |db, intents: &[Intent]| {
            Box::pin(async move {
                let inserted = insert_intents(db, intents).await?;
                Ok(intents.iter().map(|intent| inserted.contains(&intent.payment.id.uuid())).collect())
            })
        });
        Self { cards: payment_methods::reader(pool.clone()), pool, batches }
    }

    /// Inserts an intent. Returns `false` if its idempotency key was used before; then nothing was inserted.
    ///
    /// # Errors
    /// Database errors. After a lost connection it may have been inserted.
    pub async fn insert(&self, intent: Intent) -> sqlx::Result<bool> {
        self.batches.call(intent).await
    }
}

/// Inserts payments with their operations and idempotency keys, and returns the ids of the payments. Left out are those
/// whose key was used before. Keys are claimed in one order, because a statement waits for a concurrent one that claims
/// the same key.
///
/// # Errors
/// The database's; then none was inserted.
pub async fn insert_intents(db: &mut PgConnection, intents: &[Intent]) -> sqlx::Result<Vec<Uuid>> {
    sqlx::query_scalar!(
        r#"WITH intent AS MATERIALIZED (
            SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[], $5::uuid[], $6::bool[], $7::text[],
                $8::bigint[], $9::text[], $10::text[], $11::int2[], $12::int2[], $13::text[], $14::timestamptz[],
                $15::uuid[], $16::operation_kind[], $17::text[], $18::text[], $19::text[], $20::text[], $21::text[],
                $22::uuid[], $23::uuid[], $24::bigint[], $25::bigint[], $26::bigint[], $27::bigint[], $28::text[],
                $29::text[], $30::uuid[], $33::text[], $34::bytea[], $35::text[], $36::text[], $37::text[], $38::text[])
            AS i (payment_id, account_id, provider_account_id, customer_id, payment_method_id, capture, currency, amount,
                card_brand, card_last4, card_exp_month, card_exp_year, return_url, created_at, operation_id, kind, reference,
                upstream_token, card_ref, reply_to, request_id, invoice_id, payment_link_id, amount_base,
                amount_surcharge, amount_tax, amount_tip, action_token, payer_address, requested_by_key, key, request_hash, metadata,
                external_id, description, payer_language)),
         claimed AS (
            INSERT INTO idempotency_keys (account_id, key, request_hash, payment_id, created_at)
            SELECT account_id, key, request_hash, payment_id, created_at FROM intent
            WHERE key IS NOT NULL ORDER BY account_id, key
            ON CONFLICT (account_id, key) DO NOTHING RETURNING payment_id),
         accepted AS MATERIALIZED (
            SELECT * FROM intent WHERE key IS NULL OR payment_id IN (SELECT payment_id FROM claimed)),
         payment AS (
            INSERT INTO payments
                (id, account_id, provider_account_id, customer_id, payment_method_id, status, capture, currency,
                 amount_requested, amount, card_brand, card_last4, card_exp_month, card_exp_year, return_url, created_at,
                 invoice_id, payment_link_id, amount_base, amount_surcharge, amount_tax, amount_tip, metadata, external_id,
                 description, payer_language)
            SELECT payment_id, account_id, provider_account_id, customer_id, payment_method_id, $32, capture,
                currency, amount, amount, card_brand, card_last4, card_exp_month, card_exp_year, return_url, created_at,
                invoice_id, payment_link_id, amount_base, amount_surcharge, amount_tax, amount_tip, metadata::jsonb, external_id,
                description, payer_language
            FROM accepted RETURNING id),
         charge AS (
            INSERT INTO operations
                (id, account_id, payment_id, provider_account_id, kind, reference, amount, currency,
                 upstream_token, card_ref, next_push_at, reply_to, request_id, created_at, action_token,
                 payer_address, requested_by_key)
            SELECT operation_id, account_id, payment_id, provider_account_id, kind, reference, amount, currency,
                upstream_token, card_ref, clock_timestamp() + make_interval(secs => $31), reply_to, request_id,
                clock_timestamp(), action_token, payer_address, requested_by_key
            FROM accepted WHERE coalesce(upstream_token, card_ref) IS NOT NULL)
         SELECT id AS "id!: Uuid" FROM payment"#,
        &column(intents, |intent| intent.payment.id.uuid()),
        &column(intents, |intent| intent.payment.account_id.uuid()),
        &column(intents, |intent| intent.payment.provider_account_id.uuid()),
        &column(intents, |intent| intent.payment.customer_id.map(CustomerId::uuid)) as _,
        &column(intents, |intent| intent.payment.payment_method_id.map(PaymentMethodId::uuid)) as _,
        &column(intents, |intent| intent.payment.capture),
        &column(intents, |intent| intent.payment.currency.code()) as _,
        &column(intents, |intent| intent.payment.amount_requested),
        &column(intents, |intent| intent.payment.card_brand.as_deref()) as _,
        &column(intents, |intent| intent.payment.card_last4.as_deref()) as _,
        &column(intents, |intent| intent.payment.card_exp_month) as _,
        &column(intents, |intent| intent.payment.card_exp_year) as _,
        &column(intents, |intent| intent.return_url.as_deref()) as _,
        &column(intents, |intent| intent.payment.created_at) as &[Timestamp],
        &column(intents, |intent| intent.operation.uuid()),
        &column(intents, Intent::kind) as &[OperationKind],
        &column(intents, |intent| intent.operation.to_string()),
        &column(intents, |intent| intent.charged().and_then(Source::token)) as _,
        &column(intents, |intent| intent.charged().and_then(Source::card)) as _,
        &column(intents, |intent| intent.origin.reply_to.as_deref()) as _,
        &column(intents, |intent| intent.origin.request_id.as_deref()) as _,
        &column(intents, |intent| intent.payment.invoice_id.map(InvoiceId::uuid)) as _,
        &column(intents, |intent| intent.payment.payment_link_id.map(PaymentLinkId::uuid)) as _,
        &column(intents, |intent| intent.payment.amount_base) as _,
        &column(intents, |intent| intent.payment.amount_surcharge) as _,
        &column(intents, |intent| intent.payment.amount_tax) as _,
        &column(intents, |intent| intent.payment.amount_tip) as _,
        &column(intents, |intent| intent.action_token.as_deref()) as _,
        &column(intents, |intent| intent.origin.payer_address.as_deref()) as _,
        &column(intents, |intent| intent.origin.requested_by.map(KeyId::uuid)) as _,
        FIRST_PUSH_AFTER.as_secs_f64(),
        Status::Processing as Status,
        &column(intents, |intent| intent.key.as_ref().map(IdempotencyKey::text)) as _,
        &column(intents, |intent| intent.key.as_ref().map(IdempotencyKey::request_hash)) as _,
        &column(intents, |intent| intent.payment.metadata.as_ref().map(Metadata::to_json)) as _,
        &column(intents, |intent| intent.payment.external_id.as_deref()) as _,
        &column(intents, |intent| intent.payment.description.as_deref()) as _,
        &column(intents, |intent| intent.payer_language.as_deref()) as _,
    )
    .fetch_all(db)
    .await
}

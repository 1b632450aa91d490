//! The fast path of a payment: one statement, and so one round trip, for the intent, one for the outcome, and one for
//! the outcome of a collection that pays its invoice.
//!
//! They write the same rows as the separate commands of each resource, under the same constraints. Retries, late
//! responses and recovery use those commands.

use sqlx::PgConnection;
use uuid::Uuid;

use domain::events::Event;
use domain::invoices::Invoice;
use domain::operations::{Claimed, FIRST_PUSH_AFTER, NewOperation, OperationKind, Outcome, State};
use domain::payments::{NewPayment, Payment, Status};
use foundation::error::Result;
use foundation::id::{CustomerId, InvoiceId, KeyId, PaymentLinkId};
use foundation::time::Timestamp;
use providers::{DeclineType, FailureCode, Source};

/// Inserts a payment and its operation.
pub async fn insert_intent(
    db: &mut PgConnection,
    payment: &NewPayment<'_>,
    operation: &NewOperation<'_>,
    now: Timestamp,
) -> Result<()> {
    let card = payment.payment_method.map(|(_, card)| card);
    let (token, card_ref) = match operation.source {
        Some(Source::Token(token)) => (Some(token.expose().as_str()), None),
        Some(Source::Card(card)) => (None, Some(card.as_str())),
        None => (None, None),
    };
    sqlx::query!(
        "WITH payment AS (
            INSERT INTO payments
                (id, account_id, provider_account_id, customer_id, payment_method_id, status, capture, currency,
                 amount_requested, amount, card_brand, card_last4, card_exp_month, card_exp_year, return_url, created_at,
                 invoice_id, payment_link_id, amount_base, amount_surcharge, amount_tax, amount_tip)
            VALUES ($1, $2, $3, $4, $5, 'processing', $6, $7, $8, $8, $9, $10, $11, $12, $13, $14, $23, $24, $25, $26, $27, $28))
         INSERT INTO operations
            (id, account_id, payment_id, provider_account_id, kind, reference, amount, currency,
             upstream_token, card_ref, next_push_at, reply_to, request_id, created_at, action_token,
             payer_address, requested_by_key)
         VALUES ($15, $2, $1, $3, $16, $17, $8, $7, $18, $19,
                 clock_timestamp() + make_interval(secs => $20), $21, $22, clock_timestamp(), $29, $30, $31)",
        payment.id.uuid(),
        payment.account_id.uuid(),
        payment.provider_account_id.uuid(),
        payment.customer_id.map(CustomerId::uuid),
        payment.payment_method.map(|(id, _)| id.uuid()),
        payment.capture,
        payment.money.currency.code(),
        payment.money.minor,
        card.map(|card| card.brand.as_str()),
        card.map(|card| card.last4.as_str()),
        card.map(|card| card.exp_month),
        card.map(|card| card.exp_year),
        payment.return_url,
        now,
        operation.id.uuid(),
        operation.kind as OperationKind,
        operation.id.to_string(),
        token,
        card_ref,
        FIRST_PUSH_AFTER.as_secs_f64(),
        operation.origin.reply_to,
        operation.origin.request_id,
        payment.invoice_id.map(InvoiceId::uuid),
        payment.payment_link_id.map(PaymentLinkId::uuid),
        payment.parts.map(|parts| parts.base),
        payment.parts.and_then(|parts| parts.surcharge),
        payment.parts.and_then(|parts| parts.tax),
        payment.parts.and_then(|parts| parts.tip),
        operation.action_token,
        operation.origin.payer_address,
        operation.origin.requested_by.map(KeyId::uuid),
    )
    .execute(db)
    .await?;
    Ok(())
}

/// What the outcome of a charge writes besides the payment and the operation.
pub struct OutcomeRecord<'a> {
    pub event: Option<&'a Event>,
    /// The response body to store for the idempotency key, if one was used.
    pub response: &'a str,
}

/// Records the outcome of a charge whose payment still awaits it, and returns the webhook endpoints to wake. `None` if
/// the payment does not; then nothing was written.
///
/// Only the outcome of its one charge moves a payment out of `processing` and `requires_action`, so the status
/// condition is both lock and guard: of two concurrent writers the second waits for the row lock, then matches no row.
pub async fn finish_charge(
    db: &mut PgConnection,
    claimed: &Claimed,
    payment: &Payment,
    outcome: &Outcome<'_>,
    record: &OutcomeRecord<'_>,
) -> Result<Option<Vec<Uuid>>> {
    let written = sqlx::query!(
        r#"WITH payment AS (
               UPDATE payments SET status = $3, amount = $4, amount_captured = $5, card_brand = $6, card_last4 = $7,
                   card_exp_month = $8, card_exp_year = $9, decline_code = $10, decline_type = $11, provider_ref = $12,
                   captured_at = $13, inquiry_at = $14, failure_code = $23
               WHERE account_id = $1 AND id = $2 AND status IN ('processing', 'requires_action') RETURNING id),
           operation AS (
               UPDATE operations o SET state = $16, provider_ref = $12, failure = $17, failure_code = $23,
                   finished_at = clock_timestamp(),
                   next_push_at = NULL, lease_until = NULL, upstream_token = NULL, payer_address = NULL
               FROM payment WHERE o.id = $15),
           told AS (SELECT emit_event($18, $1, $19, $20, $21) AS endpoint FROM payment WHERE $18::uuid IS NOT NULL),
           answer AS (
               UPDATE idempotency_keys k SET answer = $22 FROM payment
               WHERE k.account_id = $1 AND k.payment_id = payment.id AND k.answer IS NULL)
           SELECT EXISTS (SELECT 1 FROM payment) AS "written!", ARRAY(SELECT endpoint FROM told) AS "endpoints!""#,
        payment.account_id.uuid(),
        payment.id.uuid(),
        payment.status as Status,
        payment.amount,
        payment.amount_captured,
        payment.card_brand,
        payment.card_last4,
        payment.card_exp_month,
        payment.card_exp_year,
        payment.decline_code,
        payment.decline_type as Option<DeclineType>,
        outcome.provider_ref,
        payment.captured_at,
        payment.inquiry_at,
        claimed.id.uuid(),
        outcome.state as State,
        outcome.failure,
        record.event.map(|event| event.id.uuid()),
        record.event.map(|event| event.kind.name()),
        record.event.map(|event| event.payload.as_str()),
        record.event.map(|event| event.at),
        record.response,
        outcome.failure_code.filter(|_| payment.status == Status::Failed) as Option<FailureCode>,
    )
    .fetch_one(db)
    .await?;
    Ok(written.written.then_some(written.endpoints))
}

/// Records the outcome of a collection that pays its invoice, with the events of both, and returns the webhook
/// endpoints to wake. `None` if the invoice or the payment has changed since it was read; then nothing was written.
///
/// The invoice is locked first, in the same order as without the fast path: a payment for an invoice leaves
/// `processing` only under that lock.
pub async fn finish_collection(
    db: &mut PgConnection,
    claimed: &Claimed,
    payment: &Payment,
    invoice: &Invoice,
    events: &[Event; 2],
    now: Timestamp,
) -> Result<Option<Vec<Uuid>>> {
    let written = sqlx::query!(
        r#"WITH invoice AS (
               UPDATE invoices SET status = 'paid', amount_paid = $4, paid_at = $5, payment_id = $2, collect_at = NULL,
                   collect_payment_method_id = NULL, series_started_at = NULL, series_failures = 0, collection_exhausted = false
               WHERE account_id = $1 AND id = $3 AND status = 'scheduled' AND next_attempt_at IS NULL
                 AND EXISTS (SELECT 1 FROM payments WHERE account_id = $1 AND id = $2 AND status = 'processing')
               RETURNING id),
           payment AS (
               UPDATE payments p SET status = $6, amount = $4, amount_captured = $4, card_brand = $7, card_last4 = $8,
                   card_exp_month = $9, card_exp_year = $10, provider_ref = $11, captured_at = $12, inquiry_at = $13
               FROM invoice WHERE p.account_id = $1 AND p.id = $2 RETURNING p.id),
           attempt AS (
               UPDATE collection_attempts t SET status = 'succeeded' FROM payment
               WHERE t.account_id = $1 AND t.payment_id = payment.id),
           operation AS (
               UPDATE operations o SET state = 'succeeded', provider_ref = $11, finished_at = clock_timestamp(),
                   next_push_at = NULL, lease_until = NULL
               FROM payment WHERE o.id = $14),
           told AS (
               SELECT emit_event(e.id, $1, e.type, e.payload, e.at) AS endpoint
               FROM payment, unnest($15::uuid[], $16::text[], $17::text[], $18::timestamptz[]) AS e (id, type, payload, at))
           SELECT EXISTS (SELECT 1 FROM payment) AS "written!", ARRAY(SELECT endpoint FROM told) AS "endpoints!: Vec<Uuid>""#,
        payment.account_id.uuid(),
        payment.id.uuid(),
        invoice.id.uuid(),
        payment.amount,
        now,
        payment.status as Status,
        payment.card_brand,
        payment.card_last4,
        payment.card_exp_month,
        payment.card_exp_year,
        payment.provider_ref,
        payment.captured_at,
        payment.inquiry_at,
        claimed.id.uuid(),
        &events.each_ref().map(|event| event.id.uuid()),
        &events.each_ref().map(|event| event.kind.name().to_owned()),
        &events.each_ref().map(|event| event.payload.clone()),
        &events.each_ref().map(|event| event.at) as &[Timestamp],
    )
    .fetch_one(db)
    .await?;
    Ok(written.written.then_some(written.endpoints))
}

//! The outcome of a charge, written in one statement: the payment, its operation, the events, the response for replays
//! of the idempotency key, and the invoice that a collection has paid.

use sqlx::PgConnection;
use uuid::Uuid;

use super::finish::Outcome;
use crate::accounts::Mode;
use crate::events::{self, Event, EventType};
use crate::operations::State;
use crate::payments::{Payment, PaymentView, Status};
use foundation::db::column;
use foundation::error::{Error, Result};
use foundation::id::{InvoiceId, OperationId};
use foundation::rule_enabled;
use foundation::time::Timestamp;
use providers::{DeclineType, FailureCode, ProviderResponse};

/// A charge that has ended.
#[derive(Debug)]
pub struct EndedCharge {
    /// As it is after the outcome, with the version that writing it gives.
    pub payment: Payment,
    pub operation: OperationId,
    pub state: State,
    /// Why it failed, for operators.
    pub failure: Option<String>,
    pub events: Vec<Event>,
    /// The response body to store for the idempotency key, if one was used.
    pub response: Option<String>,
    /// The scheduled invoice that a collection has paid in full, and its version after that.
    pub invoice: Option<(InvoiceId, i64)>,
}

impl EndedCharge {
    /// The outcome of a charge with its event and the response for replays. `payment` is as after the outcome, but with its
    /// version before it.
    ///
    /// # Errors
    /// [`Error::Internal`] if an object cannot be rendered.
    pub fn new(
        operation: OperationId,
        mut payment: Payment,
        response: &ProviderResponse,
        now: Timestamp,
    ) -> Result<Self> {
        payment.version += 1;
        let view = PaymentView::new(&payment, &[]);
        let body = serde_json::to_string(&view).map_err(|e| Error::internal(format!("{}: {e}", payment.id)))?;
        let livemode = payment.mode == Mode::Live;
        let event = event_of(&payment).filter(|_| rule_enabled!(Event));
        let events = event.into_iter().map(|kind| events::render(livemode, kind, &view, now)).collect::<Result<_>>()?;
        let Outcome { state, failure, .. } = Outcome::of(response);
        let failure = failure.map(str::to_owned);
        Ok(Self { operation, state, failure, events, response: Some(body), invoice: None, payment })
    }
}

/// The event of a payment whose charge has just ended.
pub fn event_of(payment: &Payment) -> Option<EventType> {
    match payment.status {
        Status::Declined => Some(EventType::PaymentDeclined),
        Status::Failed => Some(EventType::PaymentFailed),
        Status::Authorized | Status::PartiallyAuthorized | Status::PendingSettlement if payment.capture => {
            Some(EventType::PaymentCaptured)
        }
        Status::Authorized | Status::PartiallyAuthorized => Some(EventType::PaymentAuthorized),
        Status::Processing
        | Status::RequiresAction
        | Status::PendingSettlement
        | Status::Settled
        | Status::PartiallyRefunded
        | Status::Refunded
        | Status::Cancelled
        | Status::Expired => None,
    }
}

/// What was written.
#[derive(Debug, Default)]
pub struct Written {
    pub payments: Vec<Uuid>,
    /// The webhook endpoints to wake.
    pub endpoints: Vec<Uuid>,
}

/// Writes the outcomes, at most one of each payment, of those charges whose payments still await one and whose invoices
/// are still scheduled, unless another transaction has locked or changed them: the events and the stored response show
/// them as they were read. Invoices are locked before payments.
///
/// Only the outcome of its one charge moves a payment out of `processing` and `requires_action`, so the row lock and
/// the status are guard enough.
///
/// Other locks, such as that of a webhook endpoint that is being changed, are waited for: if `waits_briefly`, for a second.
///
/// # Errors
/// The database's; then nothing was written.
pub async fn finish_charges(
    db: &mut PgConnection,
    charges: &[&EndedCharge],
    waits_briefly: bool,
) -> sqlx::Result<Written> {
    let failure_codes =
        column(charges, |charge| charge.payment.failure_code.filter(|_| charge.payment.status == Status::Failed));
    let events: Vec<_> =
        charges.iter().flat_map(|charge| charge.events.iter().map(|event| (charge.payment.id, event))).collect();
    sqlx::query_as!(
        Written,
        r#"WITH charge AS MATERIALIZED (
               SELECT c.* FROM set_config('lock_timeout', CASE WHEN $28 THEN current_setting('unified_payments.brief_lock_timeout', true) END, true),
                   unnest($1::uuid[], $2::uuid[], $3::payment_status[], $4::bigint[], $5::bigint[], $6::text[],
                   $7::text[], $8::int2[], $9::int2[], $10::text[], $11::decline_type[], $12::text[], $13::timestamptz[],
                   $14::timestamptz[], $15::uuid[], $16::operation_state[], $17::text[], $18::text[], $19::text[], $20::uuid[], $26::bigint[], $27::bigint[])
               AS c (account_id, id, status, amount, amount_captured, card_brand, card_last4, card_exp_month, card_exp_year,
                   decline_code, decline_type, provider_ref, captured_at, inquiry_at, operation_id, state, failure,
                   response, failure_code, invoice_id, version, invoice_version)),
           scheduled AS MATERIALIZED (
               SELECT locked.id FROM (SELECT * FROM charge WHERE invoice_id IS NOT NULL ORDER BY invoice_id) c
               CROSS JOIN LATERAL (SELECT i.id FROM invoices i
                   WHERE i.account_id = c.account_id AND i.id = c.invoice_id AND i.version = c.invoice_version - 1
                     AND i.status = 'scheduled' AND i.next_attempt_at IS NULL FOR NO KEY UPDATE SKIP LOCKED) locked),
           awaiting AS MATERIALIZED (
               SELECT locked.id FROM (SELECT * FROM charge
                   WHERE invoice_id IS NULL OR invoice_id IN (SELECT id FROM scheduled) ORDER BY id) c
               CROSS JOIN LATERAL (SELECT p.id FROM payments p
                   WHERE p.account_id = c.account_id AND p.id = c.id AND p.version = c.version - 1
                     AND p.status IN ('processing', 'requires_action') FOR NO KEY UPDATE SKIP LOCKED) locked),
           outcome AS MATERIALIZED (SELECT c.* FROM awaiting a JOIN charge c ON c.id = a.id),
           invoice AS (
               UPDATE invoices i SET status = 'paid', amount_paid = o.amount, paid_at = o.captured_at, payment_id = o.id,
                   collect_at = NULL, collect_payment_method_id = NULL, series_started_at = NULL, series_failures = 0,
                   collection_exhausted = false
               FROM outcome o WHERE i.account_id = o.account_id AND i.id = o.invoice_id),
           payment AS (
               UPDATE payments p SET status = o.status, amount = o.amount, amount_captured = o.amount_captured,
                   card_brand = o.card_brand, card_last4 = o.card_last4, card_exp_month = o.card_exp_month,
                   card_exp_year = o.card_exp_year, decline_code = o.decline_code, decline_type = o.decline_type,
                   provider_ref = o.provider_ref, captured_at = o.captured_at, inquiry_at = o.inquiry_at,
                   failure_code = o.failure_code
               FROM outcome o WHERE p.account_id = o.account_id AND p.id = o.id),
           attempt AS (
               UPDATE collection_attempts t SET status = 'succeeded' FROM outcome o
               WHERE o.invoice_id IS NOT NULL AND t.account_id = o.account_id AND t.payment_id = o.id),
           operation AS (
               UPDATE operations p SET state = o.state, provider_ref = o.provider_ref, failure = o.failure,
                   failure_code = o.failure_code, finished_at = clock_timestamp(),
                   next_push_at = NULL, lease_until = NULL, upstream_token = NULL, payer_address = NULL
               FROM outcome o WHERE p.id = o.operation_id),
           event AS (
               SELECT emit_events(array_agg(e.id), array_agg(o.account_id), array_agg(e.type), array_agg(e.payload),
                   array_agg(e.at)) AS endpoint
               FROM outcome o
               JOIN unnest($21::uuid[], $22::uuid[], $23::text[], $24::text[], $25::timestamptz[])
                   AS e (payment_id, id, type, payload, at) ON e.payment_id = o.id),
           response AS (
               UPDATE idempotency_keys k SET answer = o.response FROM outcome o
               WHERE o.response IS NOT NULL AND k.account_id = o.account_id AND k.payment_id = o.id AND k.answer IS NULL)
           SELECT ARRAY(SELECT id FROM outcome) AS "payments!", ARRAY(SELECT DISTINCT endpoint FROM event) AS "endpoints!""#,
        &column(charges, |charge| charge.payment.account_id.uuid()),
        &column(charges, |charge| charge.payment.id.uuid()),
        &column(charges, |charge| charge.payment.status) as &[Status],
        &column(charges, |charge| charge.payment.amount),
        &column(charges, |charge| charge.payment.amount_captured),
        &column(charges, |charge| charge.payment.card_brand.as_deref()) as _,
        &column(charges, |charge| charge.payment.card_last4.as_deref()) as _,
        &column(charges, |charge| charge.payment.card_exp_month) as _,
        &column(charges, |charge| charge.payment.card_exp_year) as _,
        &column(charges, |charge| charge.payment.decline_code.as_deref()) as _,
        &column(charges, |charge| charge.payment.decline_type) as &[Option<DeclineType>],
        &column(charges, |charge| charge.payment.provider_ref.as_deref()) as _,
        &column(charges, |charge| charge.payment.captured_at) as &[Option<Timestamp>],
        &column(charges, |charge| charge.payment.inquiry_at) as &[Option<Timestamp>],
        &column(charges, |charge| charge.operation.uuid()),
        &column(charges, |charge| charge.state) as &[State],
        &column(charges, |charge| charge.failure.as_deref()) as _,
        &column(charges, |charge| charge.response.as_deref()) as _,
        &failure_codes as &[Option<FailureCode>],
        &column(charges, |charge| charge.invoice.map(|(id, _)| id.uuid())) as _,
        &column(&events, |(payment, _)| payment.uuid()),
        &column(&events, |(_, event)| event.id.uuid()),
        &column(&events, |(_, event)| event.kind.name()) as _,
        &column(&events, |(_, event)| event.payload.as_str()) as _,
        &column(&events, |(_, event)| event.at) as &[Timestamp],
        &column(charges, |charge| charge.payment.version),
        &column(charges, |charge| charge.invoice.map(|(_, version)| version)) as _,
        waits_briefly,
    )
    .fetch_one(db)
    .await
}

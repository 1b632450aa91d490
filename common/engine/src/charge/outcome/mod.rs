//! Records what a provider responded: state, amounts, event and stored response in one transaction. A response is
//! matched by operation, not by fencing token. A charge that no payment can use is recorded and reversed, never
//! dropped.

pub mod charge;
pub mod invoice_payment;
mod link_payment;
pub mod stale;
pub mod unsent;

use std::time::Duration;

use crate::charge::intent::save_card::make_default;
use crate::charge::outcome::charge::end_charge;
use crate::charge::outcome::invoice_payment::charge_for_invoice;
use crate::charge::outcome::link_payment::charge_for_link;
use crate::charge::outcome::stale::{Recorded, no_outcome, stale_change, unexpected_response};
use crate::charge::renewal_card;
use crate::charge::reversal::{record_reversal, schedule_inquiry_after_refusal};

use domain::accounts::Mode;
use domain::charges::{self, Claimed, Outcome, Retry};
use domain::customers;
use domain::events::{self, EventType};
use domain::idempotency;
use domain::operations::{OperationKind, Subject};
use domain::payment_methods::{self, PaymentMethod, PaymentMethodView};
use domain::payments::{self, Payment, PaymentView, RefundStatus, Status, refunds};
use foundation::clock::Clock;
use foundation::db::{Db, Tx};
use foundation::error::{Error, Result};
use foundation::failpoint;
use foundation::id::{PaymentId, RefundId};
use foundation::queues;
use foundation::time::Timestamp;
use providers::{Action, ProviderResponse};

/// Interval between look-ups of a charge whose cardholder has an open challenge.
const CHALLENGE_POLL_INTERVAL: Duration = Duration::from_secs(3);

/// Records a known outcome. Recording it again, from any process, changes nothing. `read` is the payment of a charge, if it
/// was read before. Returns what a waiting request is notified of, as [`record_outcome_in`].
///
/// # Errors
/// Database errors; [`Error::Internal`] for a response that does not fit the request and needs investigation.
pub async fn record_outcome(
    db: &Db,
    claimed: &Claimed,
    read: Option<&Payment>,
    response: &ProviderResponse,
    clock: &Clock,
) -> Result<Subject> {
    if let (Some(id), ProviderResponse::Challenged { url }) = (claimed.charged_payment(), response) {
        record_challenge(db, claimed, id, url, clock).await?;
        return Ok(claimed.subject);
    }
    let mut tx = db.begin().await?;
    let (_, ended) = record_outcome_in(&mut tx, claimed, read, response, clock).await?;
    failpoint!("outcome.written");
    tx.commit().await?;
    Ok(ended)
}

/// Records a known outcome within the caller's transaction. The caller commits. Returns with it what a waiting request is
/// notified of: the subject, or the payment that ends because its card was not saved.
pub async fn record_outcome_in(
    tx: &mut Tx,
    claimed: &Claimed,
    read: Option<&Payment>,
    response: &ProviderResponse,
    clock: &Clock,
) -> Result<(Recorded, Subject)> {
    let recorded = match (claimed.kind, claimed.subject) {
        (OperationKind::Sale | OperationKind::Authorize, Subject::Payment(id)) => {
            let found;
            let payment = match read {
                Some(payment) => payment,
                None => {
                    found = payments::find(&mut **tx, claimed.account_id, id).await?;
                    found.as_ref().ok_or_else(|| Error::no_such("payment", id))?
                }
            };
            let now = claimed.time.now(&mut **tx, clock).await?;
            record_charge(tx, claimed, payment, response, now).await?
        }
        (OperationKind::Capture | OperationKind::Void, Subject::Payment(id)) => {
            record_capture_or_void(tx, claimed, id, response, clock).await?
        }
        (OperationKind::Refund, Subject::Payment(id)) => record_refund(tx, claimed, id, response, clock).await?,
        (OperationKind::Reverse | OperationKind::ReverseByRefund, Subject::Payment(id)) => {
            record_reversal(tx, claimed, id, response, clock).await?
        }
        (OperationKind::StoreCard, Subject::PaymentMethod(id)) => {
            let saved = payment_methods::retrieve(tx, claimed.account_id, id).await?;
            if let Some(payment) = saved.saved_for_payment_id {
                return record_card_of_payment(tx, claimed, &saved, payment, response, clock).await;
            }
            record_stored_card(tx, claimed, &saved, response, clock).await?
        }
        (
            OperationKind::Sale | OperationKind::Authorize | OperationKind::Capture | OperationKind::Void,
            Subject::PaymentMethod(_),
        )
        | (
            OperationKind::Refund | OperationKind::Reverse | OperationKind::ReverseByRefund,
            Subject::PaymentMethod(_),
        )
        | (OperationKind::StoreCard, Subject::Payment(_)) => {
            return Err(unexpected_response(claimed, "subject does not fit the operation's kind"));
        }
    };
    Ok((recorded, claimed.subject))
}

/// Records the outcome of a charge. The first writer moves the payment out of the states that await an outcome; any
/// later response is a late one.
async fn record_charge(
    tx: &mut Tx,
    claimed: &Claimed,
    payment: &Payment,
    response: &ProviderResponse,
    now: Timestamp,
) -> Result<Recorded> {
    if let Some(invoice) = payment.invoice_id {
        return charge_for_invoice(tx, claimed, payment, invoice, response, now).await;
    }
    if let Some(link) = payment.payment_link_id {
        return charge_for_link(tx, claimed, payment.id, link, response, now).await;
    }
    let (recorded, _) = end_charge(tx, claimed, payment.id, None, response, now).await?;
    match recorded {
        Recorded::Written { .. } => {
            failpoint!("outcome.charge_written");
        }
        Recorded::Late => {
            failpoint!("outcome.written_late");
        }
        Recorded::Superseded => {}
    }
    Ok(recorded)
}

/// Records that the cardholder must complete a challenge. The operation does not end: the payment shows where to send
/// the cardholder, and the outcome is looked up at the provider whether or not the cardholder returns.
async fn record_challenge(db: &Db, claimed: &Claimed, id: PaymentId, url: &str, clock: &Clock) -> Result<()> {
    let token = claimed
        .action_token
        .as_deref()
        .ok_or_else(|| unexpected_response(claimed, "challenge although no cardholder is present"))?;
    let mut tx = db.begin().await?;
    let mut payment = payments::lock(&mut tx, claimed.account_id, id).await?;
    if payment.status == Status::Processing {
        let now = claimed.time.now(&mut *tx, clock).await?;
        payment.challenge(token, url)?;
        let view = PaymentView::new(&payment, &[]);
        let body = serde_json::to_string(&view).map_err(|e| Error::internal(format!("{id}: {e}")))?;
        payments::save_challenge(&mut tx, &payment, &body).await?;
        let livemode = payment.mode == Mode::Live;
        events::append(&mut tx, payment.account_id, livemode, EventType::PaymentRequiresAction, &view, now).await?;
    }
    charges::leave_unknown(&mut tx, claimed, Retry::After(CHALLENGE_POLL_INTERVAL), false).await?;
    failpoint!("outcome.challenged");
    tx.commit().await?;
    Ok(())
}

/// Records a capture or a void. If the provider refused, the payment keeps its status.
async fn record_capture_or_void(
    tx: &mut Tx,
    claimed: &Claimed,
    id: PaymentId,
    response: &ProviderResponse,
    clock: &Clock,
) -> Result<Recorded> {
    let mut payment = payments::lock(tx, claimed.account_id, id).await?;
    let operation = charges::lock(tx, claimed.id).await?;
    if let Some(recorded) = stale_change(claimed, &operation, response) {
        return Ok(recorded);
    }
    // Read after the lock, so that the events of concurrent changes are in the order of their locks.
    let now = claimed.time.now(&mut **tx, clock).await?;
    charges::finish(tx, claimed.id, response).await?;
    let event = match (response, &claimed.request.action) {
        (ProviderResponse::Done { .. }, Action::Capture { money, .. }) => {
            payment.captured(money.minor, claimed.provider, now)?;
            EventType::PaymentCaptured
        }
        (ProviderResponse::Done { .. }, Action::Void { .. }) => {
            payment.voided(now)?;
            EventType::PaymentCancelled
        }
        (ProviderResponse::Declined { .. } | ProviderResponse::Refused { .. }, action) => {
            payment.pending_operation = None;
            payment.failure_code = Outcome::of(response).failure_code;
            // Our view of the charge may be outdated, so the provider is queried for its status now.
            payment.inquiry_at = payment.inquiry_at.map(|_| now);
            schedule_inquiry_after_refusal(&mut payment, now);
            match action {
                Action::Capture { .. } => EventType::PaymentCaptureFailed,
                Action::Void { .. } | Action::Charge { .. } | Action::Refund { .. } | Action::StoreCard { .. } => {
                    EventType::PaymentVoidFailed
                }
            }
        }
        (
            ProviderResponse::Charged { .. }
            | ProviderResponse::Challenged { .. }
            | ProviderResponse::Done { .. }
            | ProviderResponse::Stored { .. }
            | ProviderResponse::Mismatched { .. },
            _,
        ) => {
            return Err(unexpected_response(claimed, "wrong kind of response"));
        }
    };
    payments::save(tx, &mut payment).await?;
    append_event(tx, &payment, event, None, now).await?;
    Ok(Recorded::written(&operation))
}

/// Records a refund. The reserved amount becomes refunded, or is released.
async fn record_refund(
    tx: &mut Tx,
    claimed: &Claimed,
    id: PaymentId,
    response: &ProviderResponse,
    clock: &Clock,
) -> Result<Recorded> {
    let refund = claimed.refund_id.ok_or_else(|| unexpected_response(claimed, "refund operation without a refund"))?;
    let mut payment = payments::lock(tx, claimed.account_id, id).await?;
    let operation = charges::lock(tx, claimed.id).await?;
    if let Some(recorded) = stale_change(claimed, &operation, response) {
        return Ok(recorded);
    }
    let now = claimed.time.now(&mut **tx, clock).await?;
    charges::finish(tx, claimed.id, response).await?;
    let event = match response {
        ProviderResponse::Done { .. } => {
            let amount = refunds::finish(tx, claimed.account_id, refund, RefundStatus::Succeeded, None, now).await?;
            payment.refunded(amount)?;
            EventType::PaymentRefunded
        }
        ProviderResponse::Declined { .. } | ProviderResponse::Refused { .. } => {
            let code = Outcome::of(response).failure_code;
            let amount = refunds::finish(tx, claimed.account_id, refund, RefundStatus::Failed, code, now).await?;
            payment.release(amount)?;
            schedule_inquiry_after_refusal(&mut payment, now);
            EventType::PaymentRefundFailed
        }
        ProviderResponse::Charged { .. }
        | ProviderResponse::Challenged { .. }
        | ProviderResponse::Stored { .. }
        | ProviderResponse::Mismatched { .. } => {
            return Err(unexpected_response(claimed, "wrong kind of response"));
        }
    };
    if payment.pending_operation == Some(OperationKind::Refund)
        && !charges::another_refund_is_unknown(tx, claimed, id).await?
    {
        payment.pending_operation = None;
    }
    payments::save(tx, &mut payment).await?;
    // Refunds of a payment run one at a time: wake the next instead of leaving it to the sweep.
    if let Some(next) = charges::next_refund(tx, claimed.account_id, id).await? {
        tx.wake(queues::MONEY, next.uuid());
    }
    append_event(tx, &payment, event, Some(refund), now).await?;
    Ok(Recorded::written(&operation))
}

/// Appends an event about a payment with its refunds, and about one refund if given.
pub async fn append_event(
    tx: &mut Tx,
    payment: &Payment,
    event: EventType,
    refund: Option<RefundId>,
    now: Timestamp,
) -> Result<()> {
    let refunds = refunds::of_payment(tx, payment).await?;
    let view = PaymentView::new(payment, &refunds);
    let livemode = payment.mode == Mode::Live;
    events::append_for_refund(tx, payment.account_id, livemode, event, &view, refund, now).await?;
    Ok(())
}

async fn record_stored_card(
    tx: &mut Tx,
    claimed: &Claimed,
    saved: &PaymentMethod,
    response: &ProviderResponse,
    clock: &Clock,
) -> Result<Recorded> {
    let id = saved.id;
    let customer = customers::lock(tx, claimed.account_id, saved.customer_id).await?;
    let operation = charges::lock(tx, claimed.id).await?;
    if let Some(recorded) = no_outcome(claimed, &operation, response) {
        return Ok(recorded);
    }
    let written = Recorded::written(&operation);
    charges::finish(tx, claimed.id, response).await?;
    let ProviderResponse::Stored { provider_ref, card } = response else {
        payment_methods::finish_saving(tx, id, None).await?;
        idempotency::finish_saving(tx, claimed.account_id, id, None::<&PaymentMethodView<'_>>).await?;
        return Ok(written);
    };
    payment_methods::finish_saving(tx, id, Some((provider_ref, card))).await?;
    let now = claimed.time.now(&mut **tx, clock).await?;
    if customer.default_payment_method_id.is_none() {
        make_default(tx, &customer, claimed.account_id, id, now).await?;
    }
    let saved = payment_methods::retrieve(tx, claimed.account_id, id).await?;
    let livemode = saved.mode == Mode::Live;
    let view = PaymentMethodView::new(&saved);
    events::append(tx, claimed.account_id, livemode, EventType::PaymentMethodCreated, &view, now).await?;
    idempotency::finish_saving(tx, claimed.account_id, id, Some(&view)).await?;
    Ok(written)
}

/// Records that the provider has saved the card of a payment, which is charged to it now, or has refused to, which ends
/// the payment likewise.
async fn record_card_of_payment(
    tx: &mut Tx,
    claimed: &Claimed,
    card: &PaymentMethod,
    payment: PaymentId,
    response: &ProviderResponse,
    clock: &Clock,
) -> Result<(Recorded, Subject)> {
    let ProviderResponse::Stored { provider_ref, card: details } = response else {
        let now = claimed.time.now(&mut **tx, clock).await?;
        let payment = payments::find(&mut **tx, claimed.account_id, payment).await?;
        let payment = payment.ok_or_else(|| unexpected_response(claimed, "card of an unknown payment"))?;
        let recorded = record_charge(tx, claimed, &payment, response, now).await?;
        return Ok((recorded, Subject::Payment(payment.id)));
    };
    let payment = payments::lock(tx, claimed.account_id, payment).await?;
    let operation = charges::lock(tx, claimed.id).await?;
    if let Some(recorded) = no_outcome(claimed, &operation, response) {
        return Ok((recorded, claimed.subject));
    }
    charges::finish(tx, claimed.id, response).await?;
    renewal_card::charge(tx, claimed, &payment, card, provider_ref, details).await?;
    Ok((Recorded::written(&operation), claimed.subject))
}

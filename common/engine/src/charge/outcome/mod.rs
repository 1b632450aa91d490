//! Records what a provider responded: state, amounts, event and stored response in one transaction. A response is
//! matched by operation, not by fencing token.

mod change;
pub mod charge;
pub mod follow_up;
pub mod invoice_payment;
mod link_payment;
pub mod stale;
mod stored_card;
pub mod unsent;

use std::time::Duration;

use self::change::record_change;
use self::charge::end_charge;
use self::invoice_payment::charge_for_invoice;
use self::link_payment::charge_for_link;
use self::stale::{Recorded, unexpected_response};
use self::stored_card::{record_card_of_payment, record_stored_card};
use super::reversal::record_reversal;
use domain::accounts::Mode;
use domain::charges::{self, Claimed, Retry};
use domain::events::{self, EventType};
use domain::operations::{OperationKind, Subject};
use domain::payment_methods;
use domain::payments::{self, Payment, PaymentView, Status, refunds};
use foundation::clock::Clock;
use foundation::db::{Db, Tx};
use foundation::error::{Error, Result};
use foundation::failpoint;
use foundation::id::{PaymentId, RefundId};
use foundation::time::Timestamp;
use providers::ProviderResponse;

/// Interval between look-ups of a charge whose cardholder has an open challenge.
const CHALLENGE_POLL_INTERVAL: Duration = Duration::from_secs(3);

/// Records a known outcome. Recording it again, from any process, changes nothing. Returns what a waiting request is
/// notified of, as [`record_outcome_in`].
///
/// # Errors
/// Database errors; [`Error::Internal`] for a response that does not fit the request and needs investigation.
pub async fn record_outcome(db: &Db, claimed: &Claimed, response: &ProviderResponse, clock: &Clock) -> Result<Subject> {
    if let (Some(id), ProviderResponse::Challenged { url }) = (claimed.charged_payment(), response) {
        record_challenge(db, claimed, id, url, clock).await?;
        return Ok(claimed.subject);
    }
    let mut tx = db.begin().await?;
    let (_, ended) = record_outcome_in(&mut tx, claimed, response, clock).await?;
    failpoint!("outcome.written");
    tx.commit().await?;
    Ok(ended)
}

/// Records a known outcome within the caller's transaction. The caller commits. Returns with it what a waiting request is
/// notified of: the subject, or the payment that ends because its card was not saved.
pub async fn record_outcome_in(
    tx: &mut Tx,
    claimed: &Claimed,
    response: &ProviderResponse,
    clock: &Clock,
) -> Result<(Recorded, Subject)> {
    let recorded = match (claimed.kind, claimed.subject) {
        (OperationKind::Sale | OperationKind::Authorize, Subject::Payment(id)) => {
            let found = match claimed.payment {
                Some(_) => None,
                None => payments::find(&mut **tx, claimed.account_id, id).await?,
            };
            let payment = claimed.payment.as_ref().or(found.as_ref()).ok_or_else(|| Error::no_such("payment", id))?;
            let now = claimed.time.now(&mut **tx, clock).await?;
            record_charge(tx, claimed, payment, response, now).await?
        }
        (OperationKind::Capture | OperationKind::Void | OperationKind::Refund, Subject::Payment(id)) => {
            record_change(tx, claimed, id, response, clock).await?
        }
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
        (OperationKind::StoreCard, Subject::Payment(_))
        | (
            OperationKind::Sale
            | OperationKind::Authorize
            | OperationKind::Capture
            | OperationKind::Void
            | OperationKind::Refund
            | OperationKind::Reverse
            | OperationKind::ReverseByRefund,
            Subject::PaymentMethod(_),
        ) => {
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
    let (recorded, payment) = end_charge(tx, claimed, payment.id, None, response, now).await?;
    if payment.is_some() {
        failpoint!("outcome.charge_written");
    } else if recorded == Recorded::Late {
        failpoint!("outcome.written_late");
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

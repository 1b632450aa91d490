//! The outcomes of captures, voids and refunds.

use super::append_event;
use super::follow_up::{end_follow_up, refusal};
use super::stale::{Recorded, unexpected_response};
use crate::charge::reversal::schedule_inquiry_after_refusal;
use domain::charges::{self, Claimed};
use domain::events::EventType;
use domain::operations::OperationKind;
use domain::payments::{self, Payment, RefundStatus, refunds};
use foundation::clock::Clock;
use foundation::db::Tx;
use foundation::error::Result;
use foundation::id::{PaymentId, RefundId};
use foundation::queues;
use foundation::time::Timestamp;
use providers::{Action, FailureCode, ProviderResponse};

/// Records a change of a payment. If the provider refused, the payment keeps its status.
pub(super) async fn record_change(
    tx: &mut Tx,
    claimed: &Claimed,
    id: PaymentId,
    response: &ProviderResponse,
    clock: &Clock,
) -> Result<Recorded> {
    let (recorded, payment) = end_follow_up(tx, claimed, id, response).await?;
    let Some(mut payment) = payment else { return Ok(recorded) };
    // Read after the lock, so that the events of concurrent changes are in the order of their locks.
    let now = claimed.time.now(&mut **tx, clock).await?;
    let refusal = refusal(claimed, response)?.map(|(code, _)| code);
    let event = match (&claimed.request.action, claimed.refund_id, refusal) {
        (Action::Capture { money, .. }, _, None) => {
            payment.captured(money.minor, claimed.provider, now)?;
            EventType::PaymentCaptured
        }
        (Action::Void { .. }, _, None) => {
            payment.voided(now)?;
            EventType::PaymentCancelled
        }
        (action @ (Action::Capture { .. } | Action::Void { .. }), _, Some(code)) => {
            payment.pending_operation = None;
            payment.failure_code = Some(code);
            // Our view of the charge may be outdated, so the provider is queried for its status now.
            payment.inquiry_at = payment.inquiry_at.map(|_| now);
            schedule_inquiry_after_refusal(&mut payment, now);
            match matches!(action, Action::Capture { .. }) {
                true => EventType::PaymentCaptureFailed,
                false => EventType::PaymentVoidFailed,
            }
        }
        (Action::Refund { .. }, Some(refund), _) => {
            finish_refund(tx, claimed, &mut payment, refund, refusal, now).await?
        }
        (Action::Refund { .. } | Action::Charge { .. } | Action::StoreCard { .. }, ..) => {
            return Err(unexpected_response(claimed, "it is no change of a payment, or a refund without a refund"));
        }
    };
    payments::save(tx, &mut payment).await?;
    // Refunds of a payment run one at a time: wake the next instead of leaving it to the sweep.
    if claimed.refund_id.is_some()
        && let Some(next) = charges::next_refund(tx, claimed.account_id, id).await?
    {
        tx.wake(queues::PAYMENTS, next.uuid());
    }
    append_event(tx, &payment, event, claimed.refund_id, now).await?;
    Ok(recorded)
}

/// Ends a refund. The reserved amount becomes refunded, or is released.
async fn finish_refund(
    tx: &mut Tx,
    claimed: &Claimed,
    payment: &mut Payment,
    refund: RefundId,
    refusal: Option<FailureCode>,
    now: Timestamp,
) -> Result<EventType> {
    let status = if refusal.is_some() { RefundStatus::Failed } else { RefundStatus::Succeeded };
    let amount = refunds::finish(tx, claimed.account_id, refund, status, refusal, now).await?;
    let event = if refusal.is_some() {
        payment.release(amount)?;
        schedule_inquiry_after_refusal(payment, now);
        EventType::PaymentRefundFailed
    } else {
        payment.refunded(amount)?;
        EventType::PaymentRefunded
    };
    if payment.pending_operation == Some(OperationKind::Refund)
        && !charges::another_refund_is_unknown(tx, claimed, payment.id).await?
    {
        payment.pending_operation = None;
    }
    Ok(event)
}

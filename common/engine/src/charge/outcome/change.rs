//! The outcomes of captures, voids and refunds.

use super::append_event;
use super::stale::{Recorded, stale_change, unexpected_response};
use crate::charge::reversal::schedule_inquiry_after_refusal;
use domain::charges::{self, Claimed, Outcome};
use domain::events::EventType;
use domain::operations::OperationKind;
use domain::payments::{self, RefundStatus, refunds};
use foundation::clock::Clock;
use foundation::db::Tx;
use foundation::error::Result;
use foundation::id::PaymentId;
use foundation::queues;
use providers::{Action, ProviderResponse};

/// Records a capture or a void. If the provider refused, the payment keeps its status.
pub(super) async fn record_capture_or_void(
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
pub(super) async fn record_refund(
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

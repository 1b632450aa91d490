//! Ends a charge: the payment's new state, its event and its stored response, in one statement.

use crate::charge::stale::{Anomaly, reverse, unexpected_response};
use domain::accounts::Mode;
use domain::charges::{Claimed, EndedCharge, Outcome, finish_charges};
use domain::events::{self, EventType};
use domain::operations::State;
use domain::payments::{Payment, PaymentView, Status};
use foundation::db::Tx;
use foundation::error::{Error, Result};
use foundation::id::OperationId;
use foundation::queues;
use foundation::rule_enabled;
use foundation::time::Timestamp;
use providers::{FailureCode, ProviderResponse};

/// Records the outcome of a charge that is locked with its operation.
pub async fn finish_payment(
    tx: &mut Tx,
    claimed: &Claimed,
    payment: &Payment,
    response: &ProviderResponse,
    now: Timestamp,
) -> Result<()> {
    if !end_charge(tx, claimed.id, payment, response, now).await? {
        return Err(unexpected_response(claimed, "charge of a payment that has already ended"));
    }
    if let ProviderResponse::Mismatched { provider_ref, total } = response {
        reverse(tx, claimed, payment, provider_ref, *total, Anomaly::AmountMismatch, now).await?;
    }
    Ok(())
}

/// Writes the outcome of a charge and wakes the webhook endpoints of its event. Returns `false` if it had already ended.
/// `payment` is as for [`ended_charge`].
pub async fn end_charge(
    tx: &mut Tx,
    operation: OperationId,
    payment: &Payment,
    response: &ProviderResponse,
    now: Timestamp,
) -> Result<bool> {
    let written = finish_charges(tx, &[&ended_charge(operation, payment.clone(), response, now)?]).await?;
    for endpoint in written.endpoints {
        tx.wake(queues::WEBHOOKS, endpoint);
    }
    Ok(!written.payments.is_empty())
}

/// The outcome of a charge with its event and the response for replays. `payment` is as after the outcome, but with its
/// version before it.
pub fn ended_charge(
    operation: OperationId,
    mut payment: Payment,
    response: &ProviderResponse,
    now: Timestamp,
) -> Result<EndedCharge> {
    payment.version += 1;
    let view = PaymentView::new(&payment, &[]);
    let body = serde_json::to_string(&view).map_err(|e| Error::internal(format!("{}: {e}", payment.id)))?;
    let livemode = payment.mode == Mode::Live;
    let event = event_for(&payment).filter(|_| rule_enabled!(Event));
    let events = event.into_iter().map(|kind| events::render(livemode, kind, &view, now)).collect::<Result<_>>()?;
    let outcome = operation_outcome(response);
    Ok(EndedCharge {
        operation,
        state: outcome.state,
        failure: outcome.failure.map(str::to_owned),
        events,
        response: Some(body),
        invoice: None,
        payment,
    })
}

/// Applies a provider's response to the payment.
pub fn apply_response(
    payment: &mut Payment,
    claimed: &Claimed,
    response: &ProviderResponse,
    now: Timestamp,
) -> Result<()> {
    match response {
        ProviderResponse::Charged { provider_ref, amount, card } => {
            if !(1..=payment.amount_requested).contains(amount) {
                return Err(unexpected_response(
                    claimed,
                    &format!("approved {amount} of {} requested", payment.amount_requested),
                ));
            }
            payment.approve(provider_ref, *amount, card.as_ref(), claimed.provider, now)
        }
        ProviderResponse::Declined { decline, card } => payment.decline(decline, card.as_ref()),
        ProviderResponse::Mismatched { .. } => payment.fail(FailureCode::AmountMismatch),
        ProviderResponse::Refused { code, .. } => payment.fail(*code),
        ProviderResponse::Challenged { .. } | ProviderResponse::Done { .. } | ProviderResponse::Stored { .. } => {
            Err(unexpected_response(claimed, "wrong kind of response"))
        }
    }
}

/// Returns the event for a payment whose charge has just ended.
pub fn event_for(payment: &Payment) -> Option<EventType> {
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

/// How an operation ends with this response.
pub fn operation_outcome(response: &ProviderResponse) -> Outcome<'_> {
    let outcome = |state| Outcome { state, provider_ref: None, failure: None, failure_code: None };
    match response {
        ProviderResponse::Charged { provider_ref, .. }
        | ProviderResponse::Done { provider_ref }
        | ProviderResponse::Stored { provider_ref, .. } => {
            Outcome { provider_ref: Some(provider_ref), ..outcome(State::Succeeded) }
        }
        ProviderResponse::Declined { decline, .. } => Outcome {
            failure: Some(&decline.code),
            failure_code: Some(FailureCode::ProviderRefused),
            ..outcome(State::Declined)
        },
        ProviderResponse::Refused { code, reason } => {
            Outcome { failure: Some(reason), failure_code: Some(*code), ..outcome(State::Failed) }
        }
        // The charge belongs to the anomaly and its reversal, so the operation gets no provider_ref.
        ProviderResponse::Mismatched { .. } => Outcome {
            failure: Some("the provider charged a different amount than requested"),
            failure_code: Some(FailureCode::AmountMismatch),
            ..outcome(State::Failed)
        },
        ProviderResponse::Challenged { .. } => outcome(State::Unknown),
    }
}

//! Ends a charge: the payment's new state, its event and its stored response, in one statement. A charge that no payment
//! can use is recorded and reversed, never dropped.

use crate::charge::outcome::stale::{Recorded, no_outcome, unexpected_response};
use crate::charge::reversal::{Anomaly, reverse};
use domain::charges::{self, Claimed, EndedCharge, Locked};
use domain::payments::{self, Payment};
use foundation::db::Tx;
use foundation::error::{Error, Result};
use foundation::id::{OperationId, PaymentId};
use foundation::queues;
use foundation::time::Timestamp;
use providers::{Card, FailureCode, ProviderResponse};

/// Locks a payment and the operation that charges it, and writes the outcome. `card` is the one that the payment saves.
/// Returns the payment, unless the response comes too late. The invoice or link that it pays is locked.
pub async fn end_charge(
    tx: &mut Tx,
    claimed: &Claimed,
    id: PaymentId,
    card: Option<&Card>,
    response: &ProviderResponse,
    now: Timestamp,
) -> Result<(Recorded, Option<Payment>)> {
    let mut payment = payments::lock(tx, claimed.account_id, id).await?;
    let operation = charges::lock(tx, claimed.id).await?;
    if let Some(recorded) = no_outcome(claimed, &operation, response) {
        if recorded == Recorded::Late {
            late_charge(tx, claimed, &payment, &operation, response, now).await?;
        }
        return Ok((recorded, None));
    }
    if !payment.status.is_under_way() {
        return Err(unexpected_response(claimed, &format!("charge of a payment that is {}", payment.status.name())));
    }
    if let Some(card) = card {
        payment.set_card(card);
    }
    apply_response(&mut payment, claimed, response, now)?;
    write_outcome(tx, claimed.id, &payment, response, now).await?;
    if let ProviderResponse::Mismatched { provider_ref, total } = response {
        reverse(tx, claimed, &payment, provider_ref, *total, Anomaly::AmountMismatch, now).await?;
    }
    Ok((Recorded::written(&operation), Some(payment)))
}

/// Handles a response to an operation that has ended. A repeated report of the same charge is ignored; another charge
/// is reversed.
async fn late_charge(
    tx: &mut Tx,
    claimed: &Claimed,
    payment: &Payment,
    operation: &Locked,
    response: &ProviderResponse,
    now: Timestamp,
) -> Result<()> {
    let (provider_ref, amount, anomaly) = match response {
        ProviderResponse::Charged { provider_ref, amount, .. } => (provider_ref, *amount, Anomaly::SecondCharge),
        ProviderResponse::Mismatched { provider_ref, total } => (provider_ref, *total, Anomaly::AmountMismatch),
        ProviderResponse::Challenged { .. }
        | ProviderResponse::Declined { .. }
        | ProviderResponse::Refused { .. }
        | ProviderResponse::Done { .. }
        | ProviderResponse::Stored { .. } => return Ok(()),
    };
    if operation.provider_ref.as_ref() == Some(provider_ref) {
        return Ok(());
    }
    reverse(tx, claimed, payment, provider_ref, amount, anomaly, now).await
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

/// Writes the outcome of a charge that is locked with its operation, and wakes the webhook endpoints of its event.
/// `payment` is as for [`EndedCharge::new`].
pub async fn write_outcome(
    tx: &mut Tx,
    operation: OperationId,
    payment: &Payment,
    response: &ProviderResponse,
    now: Timestamp,
) -> Result<()> {
    let ended = EndedCharge::new(operation, payment.clone(), response, now)?;
    let written = charges::finish_charges(tx, &[&ended], false).await?;
    if written.payments.is_empty() {
        return Err(Error::internal(format!("{operation}: {} awaits no outcome although it is locked", payment.id)));
    }
    for endpoint in written.endpoints {
        tx.wake(queues::WEBHOOKS, endpoint);
    }
    Ok(())
}

//! Where a payment stands, and what happens next, in plain words.

use super::payment::Anomaly;
use crate::operations::State;
use crate::operations::admin::OperationRow;
use crate::payments::{Payment, Status};

/// A sentence for the payment, one for each charge that was not given back, and one for each operation that has not ended.
pub(super) fn payment_stands(payment: &Payment, operations: &[OperationRow], unwanted: &[Anomaly]) -> Vec<String> {
    let next = payment.inquiry_at;
    let asked = next.map(|at| format!("; the provider is asked how it stands at {at}")).unwrap_or_default();
    let of_payment = match payment.status {
        Status::Processing => "The outcome of the charge is awaited.".to_owned(),
        Status::RequiresAction => "The cardholder is being asked by their bank.".to_owned(),
        Status::Authorized | Status::PartiallyAuthorized if payment.capture => format!("The money was taken{asked}."),
        Status::Authorized | Status::PartiallyAuthorized => {
            format!("The money is held, until the merchant captures or voids it, or the hold runs out{asked}.")
        }
        Status::PendingSettlement => format!("The money was taken and has not arrived yet{asked}."),
        Status::Settled => "The money has arrived. Nothing more happens by itself.".to_owned(),
        Status::PartiallyRefunded => {
            let (back, taken) = (payment.amount_refunded, payment.amount_captured);
            format!("{back} of {taken} has gone back{asked}.")
        }
        Status::Refunded => format!("All of it has gone back{asked}."),
        Status::Declined => {
            let code = payment.decline_code.as_deref().unwrap_or_default();
            format!("The card was declined ({code}). Nothing more happens.")
        }
        Status::Failed if !unwanted.is_empty() => {
            "It has failed; the provider charged for it afterwards, which was not wanted any more.".to_owned()
        }
        Status::Failed => "The provider did nothing. Nothing more happens.".to_owned(),
        Status::Cancelled => "The charge was cancelled before it settled. Nothing more happens.".to_owned(),
        Status::Expired => "The hold ran out before a capture. Nothing more happens.".to_owned(),
    };
    let open = operations.iter().filter(|operation| !operation.state.is_final());
    let unwanted = unwanted.iter().filter_map(|charge| charge_stands(charge, operations));
    [of_payment].into_iter().chain(unwanted).chain(open.map(operation_stands)).collect()
}

/// What has become of a charge that the payment did not want, once its reversal has ended.
fn charge_stands(charge: &Anomaly, operations: &[OperationRow]) -> Option<String> {
    let reversal = operations.iter().find(|operation| operation.id == charge.reversal_operation_id)?;
    let (name, amount) = (&charge.provider_ref, charge.amount);
    let code = reversal.currency.map(|currency| format!(" {}", currency.code())).unwrap_or_default();
    match reversal.state {
        State::Failed | State::Declined => Some(format!(
            "A second charge {name} of {amount}{code} was not given back: {}. The card stands charged; refund it at the provider.",
            reversal.failure.as_deref().unwrap_or("the provider would not")
        )),
        State::Succeeded => Some(format!("A second charge {name} of {amount}{code} was given back.")),
        State::Ready | State::Claimed | State::Sending | State::Unknown => None,
    }
}

/// What is to come of an operation that has not ended.
fn operation_stands(operation: &OperationRow) -> String {
    let (id, kind) = (operation.id, operation.kind.name());
    let at = |at: Option<_>| at.map_or_else(|| "no known time".to_owned(), |at: crate::time::Timestamp| at.to_string());
    match operation.state {
        State::Unknown if operation.waits_for_a_person() => format!(
            "The {kind} waits for a person: its answer was lost at {}, and the provider can neither look it up nor take it twice. \
             Ask the provider for the reference {}, then enter it: ctl operations resolve {id} --outcome …",
            at(operation.last_sent_at),
            operation.reference
        ),
        State::Unknown => format!(
            "The outcome of the {kind} {id} is unknown since {}; the provider is asked again at {}.",
            at(operation.first_sent_at),
            at(operation.next_push_at)
        ),
        State::Sending => format!(
            "A request for the {kind} {id} is under way since {}; if nobody writes its outcome by {}, a worker takes it over.",
            at(operation.last_sent_at),
            at(operation.lease_until)
        ),
        State::Ready | State::Claimed => {
            format!("The {kind} {id} has not been sent yet; it is handed out again at {}.", at(operation.next_push_at))
        }
        State::Succeeded | State::Declined | State::Failed => format!("The {kind} {id} has ended."),
    }
}

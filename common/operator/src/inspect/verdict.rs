//! Describes a payment's state and what happens next.

use super::anomalies::Anomaly;
use domain::operations::admin::OperationRow;
use domain::operations::{OperationKind, State};
use domain::payments::{Payment, Status};

/// Returns a sentence for the payment, one for each unwanted charge whose reversal has ended, and one for each
/// operation that has not ended.
pub(super) fn describe_payment(payment: &Payment, operations: &[OperationRow], unwanted: &[Anomaly]) -> Vec<String> {
    let next = payment.inquiry_at;
    let inquiry = next.map(|at| format!("; the provider is queried for its status at {at}")).unwrap_or_default();
    let of_payment = match payment.status {
        Status::Processing if operations.iter().any(is_saving) => {
            "The card is being saved; the charge follows.".to_owned()
        }
        Status::Processing => "The outcome of the charge is pending.".to_owned(),
        Status::RequiresAction => "The cardholder must complete a challenge at their bank.".to_owned(),
        Status::Authorized | Status::PartiallyAuthorized if payment.capture => {
            format!("The charge was captured{inquiry}.")
        }
        Status::Authorized | Status::PartiallyAuthorized => {
            format!(
                "The charge is authorized, until the merchant captures or voids it, or the authorization expires{inquiry}."
            )
        }
        Status::PendingSettlement => format!("The charge was captured and has not settled yet{inquiry}."),
        Status::Settled if payment.amount_disputed > 0 => {
            format!(
                "The charge has settled, and {} of it is withdrawn because of a dispute{inquiry}.",
                payment.amount_disputed
            )
        }
        Status::Settled => "The charge has settled. Nothing more happens automatically.".to_owned(),
        Status::PartiallyRefunded => {
            let (refunded, captured) = (payment.amount_refunded, payment.amount_captured);
            format!("{refunded} of {captured} was refunded{inquiry}.")
        }
        Status::Refunded => format!("The full amount was refunded{inquiry}."),
        Status::Declined => {
            let code = payment.decline_code.as_deref().unwrap_or_default();
            format!("The card was declined ({code}). Nothing more happens.")
        }
        Status::Failed if !unwanted.is_empty() => {
            "The payment failed; the provider charged the card afterwards, and that charge belongs to no payment."
                .to_owned()
        }
        Status::Failed => "The payment failed without a charge. Nothing more happens.".to_owned(),
        Status::Cancelled => "The charge was cancelled before it settled. Nothing more happens.".to_owned(),
        Status::Expired => "The authorization expired before a capture. Nothing more happens.".to_owned(),
    };
    let open = operations.iter().filter(|operation| !operation.state.is_final());
    let unwanted = unwanted.iter().filter_map(|charge| describe_unwanted_charge(charge, operations));
    [of_payment].into_iter().chain(unwanted).chain(open.map(describe_operation)).collect()
}

fn is_saving(operation: &OperationRow) -> bool {
    operation.kind == OperationKind::StoreCard && !operation.state.is_final()
}

/// Describes an unwanted charge once its reversal has ended.
fn describe_unwanted_charge(charge: &Anomaly, operations: &[OperationRow]) -> Option<String> {
    let reversal = operations.iter().find(|operation| operation.id == charge.reversal_operation_id)?;
    let (provider_ref, amount) = (&charge.provider_ref, charge.amount);
    let code = reversal.currency.map(|currency| format!(" {}", currency.code())).unwrap_or_default();
    match reversal.state {
        State::Failed | State::Declined => Some(format!(
            "A second charge {provider_ref} of {amount}{code} was not reversed: {}. The card remains charged; refund it at the provider.",
            reversal.failure.as_deref().unwrap_or("the provider refused")
        )),
        State::Succeeded => Some(format!("A second charge {provider_ref} of {amount}{code} was reversed.")),
        State::Ready | State::Sending | State::Unknown => None,
    }
}

/// Describes what happens next with an operation that has not ended.
fn describe_operation(operation: &OperationRow) -> String {
    let (id, kind) = (operation.id, operation.kind.name());
    let at = |at: Option<_>| {
        at.map_or_else(|| "an unknown time".to_owned(), |at: foundation::time::Timestamp| at.to_string())
    };
    match operation.state {
        State::Unknown if operation.needs_manual_review() => format!(
            "The {kind} needs manual review: its response was lost at {}, and the provider supports neither look-ups nor idempotent retries. \
             Ask the provider for the reference {}, then enter the outcome: ctl operations resolve {id} --outcome …",
            at(operation.last_sent_at),
            operation.reference
        ),
        State::Unknown => format!(
            "The outcome of the {kind} {id} has been unknown since {}; the provider is queried again at {}.",
            at(operation.first_sent_at),
            at(operation.next_push_at)
        ),
        State::Sending => format!(
            "A request for the {kind} {id} has been in progress since {}; if its outcome is not recorded by {}, a worker takes it over.",
            at(operation.last_sent_at),
            at(operation.lease_until)
        ),
        State::Ready => {
            format!("The {kind} {id} has not been sent yet; it is enqueued again at {}.", at(operation.next_push_at))
        }
        State::Succeeded | State::Declined | State::Failed => format!("The {kind} {id} has ended."),
    }
}

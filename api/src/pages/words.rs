//! What became of a payment, in plain words.

use common::flows::PageState;
use common::payments::{Payment, Status};

/// What became of a payment that has paid nothing, and what may be done now.
pub(super) fn of_payment(payment: &Payment, state: PageState) -> Option<[&'static str; 2]> {
    let again = if state == PageState::Open { "You may try again, with another card perhaps." } else { "" };
    let partial = payment.amount < payment.amount_requested;
    match payment.status {
        Status::Declined => Some([of_decline(payment.decline_code.as_deref()), again]),
        Status::Failed => Some(["The payment could not be made. Nothing was charged.", again]),
        Status::Cancelled | Status::Refunded if partial => {
            Some(["The card's bank approved only a part of the amount. That part was given back.", again])
        }
        Status::PartiallyAuthorized | Status::Settled | Status::PartiallyRefunded if partial => {
            Some(["The card's bank approved only a part of the amount. That part is being given back.", again])
        }
        Status::Processing
        | Status::RequiresAction
        | Status::Authorized
        | Status::PartiallyAuthorized
        | Status::PendingSettlement
        | Status::Settled
        | Status::PartiallyRefunded
        | Status::Refunded
        | Status::Cancelled
        | Status::Expired => None,
    }
}

/// That a card was reported lost or stolen is told to the merchant alone: whoever holds it may be the thief.
fn of_decline(code: Option<&str>) -> &'static str {
    match code {
        Some("insufficient_funds") => "The card was declined: there is not enough money on it. Nothing was charged.",
        Some("expired_card") => "The card was declined: it has expired. Nothing was charged.",
        Some("incorrect_cvc") => "The card was declined: the security code is not right. Nothing was charged.",
        Some("authentication_required") => "The card was declined: its bank wants a confirmation. Nothing was charged.",
        Some("authentication_failed") => {
            "The card was declined: the payment was not confirmed with its bank. Nothing was charged."
        }
        Some("sale_limit_exceeded") => "The amount is more than can be paid by card at once. Nothing was charged.",
        Some("monthly_limit_exceeded" | "transaction_limit_exceeded") => {
            "No more card payments can be taken at the moment. Nothing was charged; please try again later."
        }
        Some("ip_limit_exceeded") => {
            "There were too many payments from your network. Nothing was charged; please try again later."
        }
        Some("card_not_supported" | "currency_not_supported") => {
            "The card was declined: it cannot be used here. Nothing was charged."
        }
        _ => "The card was declined by its bank. Nothing was charged.",
    }
}

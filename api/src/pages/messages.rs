//! Messages about failed payments for cardholders.

use domain::payments::{ChargeReturn, Payment, Status};
use engine::PageState;
use providers::DeclineCode;

/// The outcome of a payment that did not pay the page, and what the payer can do. `None` for other payments.
pub(super) fn of_payment(payment: &Payment, state: PageState) -> Option<[&'static str; 2]> {
    let hint = if state == PageState::Open { "You can try again, or use another card." } else { "" };
    let partial = payment.amount < payment.amount_requested;
    match payment.status {
        Status::Declined => Some([decline_message(payment.decline_code.as_deref()), hint]),
        Status::Failed if payment.charge_return == Some(ChargeReturn::Returned) => {
            Some(["The card was charged a different amount than shown. That amount was returned.", hint])
        }
        Status::Failed if payment.charge_return.is_some() => {
            Some(["The card was charged a different amount than shown. That amount is being returned.", hint])
        }
        Status::Failed => Some(["The payment could not be made. Nothing was charged.", hint]),
        Status::Cancelled | Status::Refunded if partial => {
            Some(["The card's bank approved only part of the amount. That part was returned.", hint])
        }
        Status::PartiallyAuthorized | Status::Settled | Status::PartiallyRefunded if partial => {
            Some(["The card's bank approved only part of the amount. That part is being returned.", hint])
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

/// Lost and stolen cards get the general message: the payer may be the thief. Only the merchant sees the reason.
fn decline_message(code: Option<&str>) -> &'static str {
    match code.and_then(DeclineCode::of_name) {
        Some(DeclineCode::InsufficientFunds) => "The card was declined: insufficient funds. Nothing was charged.",
        Some(DeclineCode::ExpiredCard) => "The card was declined: it has expired. Nothing was charged.",
        Some(DeclineCode::IncorrectCvc) => {
            "The card was declined: the security code is incorrect. Nothing was charged."
        }
        Some(DeclineCode::AuthenticationRequired) => {
            "The card was declined: its bank requires a confirmation. Nothing was charged."
        }
        Some(DeclineCode::AuthenticationFailed) => {
            "The card was declined: the payment was not confirmed with its bank. Nothing was charged."
        }
        Some(DeclineCode::SaleLimitExceeded) => "The amount exceeds the limit for a card payment. Nothing was charged.",
        Some(DeclineCode::MonthlyLimitExceeded | DeclineCode::TransactionLimitExceeded) => {
            "No more card payments can be accepted at the moment. Nothing was charged; please try again later."
        }
        Some(DeclineCode::IpLimitExceeded) => {
            "There were too many payments from your network. Nothing was charged; please try again later."
        }
        Some(DeclineCode::CardNotSupported | DeclineCode::CurrencyNotSupported) => {
            "The card was declined: it cannot be used here. Nothing was charged."
        }
        Some(DeclineCode::Declined | DeclineCode::LostCard | DeclineCode::StolenCard) | None => {
            "The card was declined by its bank. Nothing was charged."
        }
    }
}

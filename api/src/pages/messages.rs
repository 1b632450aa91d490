//! Messages about failed payments for cardholders.

use domain::payments::{ChargeReturn, Payment, Status};
use engine::PageState;
use engine::PayPage;
use providers::DeclineCode;
use texts::Texts;

/// The outcome of a payment that did not pay the page, and what the payer can do. `None` for other payments.
pub(super) fn of_payment(texts: &Texts, payment: &Payment, state: PageState) -> Option<Vec<String>> {
    let partial = payment.amount < payment.amount_requested;
    let outcome = match payment.status {
        Status::Declined => decline_message(texts, payment.decline_code.as_deref()),
        Status::Failed if payment.charge_return == Some(ChargeReturn::Returned) => texts.other_amount_returned(),
        Status::Failed if payment.charge_return.is_some() => texts.other_amount_returning(),
        Status::Failed => texts.payment_failed(),
        Status::Cancelled | Status::Refunded if partial => texts.part_returned(),
        Status::PartiallyAuthorized | Status::Settled | Status::PartiallyRefunded if partial => texts.part_returning(),
        Status::Processing
        | Status::RequiresAction
        | Status::Authorized
        | Status::PartiallyAuthorized
        | Status::PendingSettlement
        | Status::Settled
        | Status::PartiallyRefunded
        | Status::Refunded
        | Status::Cancelled
        | Status::Expired => return None,
    };
    let hint = (state == PageState::Open).then(|| texts.try_again());
    Some([Some(outcome), hint].into_iter().flatten().collect())
}

/// As [`of_payment`], of a payment on this page. A card that must be saved first may be declined because the payer cannot
/// confirm that with the bank.
pub(super) fn on_page(texts: &Texts, page: &PayPage, payment: &Payment) -> Option<Vec<String>> {
    let mut lines = of_payment(texts, payment, page.state)?;
    let code = payment.decline_code.as_deref().and_then(DeclineCode::of_name);
    let is_unconfirmed = matches!(code, Some(DeclineCode::AuthenticationRequired));
    if is_unconfirmed && page.offers_renewals() && page.state == PageState::Open {
        lines.push(texts.declined_saving());
    }
    Some(lines)
}

/// Lost and stolen cards get the general message: the payer may be the thief. Only the merchant sees the reason.
fn decline_message(texts: &Texts, code: Option<&str>) -> String {
    match code.and_then(DeclineCode::of_name) {
        Some(DeclineCode::InsufficientFunds) => texts.declined_funds(),
        Some(DeclineCode::ExpiredCard) => texts.declined_expired(),
        Some(DeclineCode::IncorrectCvc) => texts.declined_code(),
        Some(DeclineCode::AuthenticationRequired) => texts.declined_confirmation(),
        Some(DeclineCode::AuthenticationFailed) => texts.declined_unconfirmed(),
        Some(DeclineCode::SaleLimitExceeded) => texts.declined_limit(),
        Some(DeclineCode::MonthlyLimitExceeded | DeclineCode::TransactionLimitExceeded) => texts.declined_busy(),
        Some(DeclineCode::IpLimitExceeded) => texts.declined_network(),
        Some(DeclineCode::CardNotSupported | DeclineCode::CurrencyNotSupported) => texts.declined_unsupported(),
        Some(DeclineCode::Declined | DeclineCode::LostCard | DeclineCode::StolenCard) | None => texts.declined(),
    }
}

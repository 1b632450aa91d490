//! Maps Stripe's declines to our codes and types (docs.stripe.com/declines/codes). `decline_code` is the issuer's
//! reason, `code` that of Stripe's error.

use super::objects::StripeError;
use crate::{Decline, DeclineCode, DeclineType};

/// The decline of an error; `None` if the issuer did not decline.
pub(super) fn of_error(error: &StripeError) -> Option<Decline> {
    let issuers = error.decline_code.as_deref().map(of_decline_code);
    match error.code.as_deref() {
        Some("card_declined") | None if error.kind == "card_error" => {
            Some(issuers.unwrap_or_else(|| DeclineCode::Declined.into()))
        }
        Some(code) => {
            let other = || (error.kind == "card_error").then(|| DeclineCode::Declined.into());
            of_code(code).map(Decline::from).or(issuers).or_else(other)
        }
        None => issuers,
    }
    .map(|decline| advised(decline, error.advice_code.as_deref()))
}

/// The decline with the type that Stripe advises, if it does.
fn advised(decline: Decline, advice: Option<&str>) -> Decline {
    let kind = match advice {
        Some("do_not_try_again" | "confirm_card_data") => DeclineType::Hard,
        Some("try_again_later") => DeclineType::Soft,
        _ => decline.kind,
    };
    Decline { kind, ..decline }
}

/// The meaning of `code`, where it says more than "declined".
fn of_code(code: &str) -> Option<DeclineCode> {
    Some(match code {
        "card_declined" | "processing_error" => DeclineCode::Declined,
        "authentication_required" | "requires_action_not_handled" => DeclineCode::AuthenticationRequired,
        "payment_intent_authentication_failure" | "setup_intent_authentication_failure" => {
            DeclineCode::AuthenticationFailed
        }
        "expired_card" | "invalid_expiry_month" | "invalid_expiry_year" => DeclineCode::ExpiredCard,
        "incorrect_cvc" | "invalid_cvc" => DeclineCode::IncorrectCvc,
        "amount_too_large" => DeclineCode::SaleLimitExceeded,
        _ => return None,
    })
}

/// The meaning of `decline_code`. Stripe recommends never to retry some without a change of the card; those are hard.
fn of_decline_code(code: &str) -> Decline {
    let known = match code {
        "insufficient_funds" | "card_velocity_exceeded" | "withdrawal_count_limit_exceeded" => {
            DeclineCode::InsufficientFunds
        }
        "authentication_required" | "authentication_not_handled" | "mobile_device_authentication_required" => {
            DeclineCode::AuthenticationRequired
        }
        "lost_card" => DeclineCode::LostCard,
        "stolen_card" | "pickup_card" => DeclineCode::StolenCard,
        "expired_card" | "invalid_expiry_month" | "invalid_expiry_year" => DeclineCode::ExpiredCard,
        "incorrect_cvc" | "invalid_cvc" => DeclineCode::IncorrectCvc,
        "card_not_supported" | "restricted_card" | "service_not_allowed" | "transaction_not_allowed" => {
            DeclineCode::CardNotSupported
        }
        "currency_not_supported" => DeclineCode::CurrencyNotSupported,
        // The card will not work again, and a retry may count against the merchant.
        "do_not_try_again"
        | "fraudulent"
        | "merchant_blacklist"
        | "incorrect_number"
        | "invalid_number"
        | "invalid_account"
        | "new_account_information_available"
        | "no_action_taken"
        | "not_permitted"
        | "revocation_of_all_authorizations"
        | "revocation_of_authorization"
        | "security_violation"
        | "stop_payment_order"
        | "testmode_decline" => {
            return Decline { code: DeclineCode::Declined.name().to_owned(), kind: DeclineType::Hard };
        }
        _ => DeclineCode::Declined,
    };
    known.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decline(code: Option<&str>, decline_code: Option<&str>) -> Option<(String, DeclineType)> {
        let error = StripeError {
            kind: "card_error".to_owned(),
            code: code.map(str::to_owned),
            decline_code: decline_code.map(str::to_owned),
            ..StripeError::default()
        };
        of_error(&error).map(|decline| (decline.code, decline.kind))
    }

    #[test]
    fn the_issuers_reason_decides_whether_a_retry_may_succeed() {
        let soft = |code: &str| Some((code.to_owned(), DeclineType::Soft));
        let hard = |code: &str| Some((code.to_owned(), DeclineType::Hard));
        assert_eq!(decline(Some("card_declined"), Some("insufficient_funds")), soft("insufficient_funds"));
        assert_eq!(decline(Some("card_declined"), Some("generic_decline")), soft("declined"));
        assert_eq!(decline(Some("card_declined"), None), soft("declined"));
        assert_eq!(decline(Some("card_declined"), Some("fraudulent")), hard("declined"));
        assert_eq!(decline(Some("card_declined"), Some("lost_card")), hard("lost_card"));
        assert_eq!(decline(Some("expired_card"), Some("expired_card")), hard("expired_card"));
        assert_eq!(
            decline(Some("authentication_required"), Some("authentication_required")),
            hard("authentication_required")
        );
        assert_eq!(
            decline(Some("card_declined"), Some("authentication_not_handled")),
            hard("authentication_required"),
            "the response to error_on_requires_action"
        );
        assert_eq!(decline(Some("payment_intent_authentication_failure"), None), soft("authentication_failed"));
        assert_eq!(decline(Some("a_code_of_tomorrow"), None), soft("declined"));
    }

    #[test]
    fn advice_of_stripe_decides() {
        let soft: Decline = DeclineCode::Declined.into();
        let hard = Decline { kind: DeclineType::Hard, ..soft.clone() };
        assert_eq!(advised(soft.clone(), Some("do_not_try_again")), hard);
        assert_eq!(advised(hard, Some("try_again_later")), soft);
        assert_eq!(advised(soft.clone(), None), soft);
    }

    #[test]
    fn an_error_of_the_request_is_no_decline() {
        for code in ["resource_missing", "parameter_invalid_integer", "payment_intent_unexpected_state"] {
            let error = StripeError {
                kind: "invalid_request_error".to_owned(),
                code: Some(code.to_owned()),
                ..StripeError::default()
            };
            assert_eq!(of_error(&error), None, "{code}");
        }
    }
}

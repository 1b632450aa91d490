//! The test cards and their behavior. Every other number is approved.

use crate::cards::{CardNumber, SecurityCode};

/// Response code of an approval.
pub const APPROVED: &str = "00";
/// Response code of a blocked reference.
pub const BLOCKED: &str = "96";
/// Response code of a decline because authentication is required.
pub const AUTHENTICATION_REQUIRED: &str = "1A";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CardBehavior {
    Approves,
    /// Declined without a reason.
    Declined,
    InsufficientFunds,
    Lost,
    Stolen,
    /// Expired, whatever date is sent.
    Expired,
    /// The security code is incorrect, whatever code is sent.
    IncorrectCvv,
    /// Approved once the cardholder has confirmed.
    RequiresAuthentication,
}

impl CardBehavior {
    pub fn of(number: &CardNumber) -> Self {
        match number.expose() {
            "4000000000000002" => Self::Declined,
            "4000000000009995" => Self::InsufficientFunds,
            "4000000000009987" => Self::Lost,
            "4000000000009979" => Self::Stolen,
            "4000000000000069" => Self::Expired,
            "4000000000000127" => Self::IncorrectCvv,
            "4000002500003155" => Self::RequiresAuthentication,
            _ => Self::Approves,
        }
    }

    /// The issuer's response code: ISO 8583, and N7 for an incorrect security code.
    pub const fn auth_code(self) -> &'static str {
        match self {
            Self::Approves | Self::RequiresAuthentication => APPROVED,
            Self::Declined => "05",
            Self::InsufficientFunds => "51",
            Self::Lost => "41",
            Self::Stolen => "43",
            Self::Expired => "54",
            Self::IncorrectCvv => "N7",
        }
    }
}

/// The decline reason for a response code.
pub fn reason(auth_code: &str) -> &'static str {
    match auth_code {
        "51" => "insufficient funds",
        "41" => "lost card",
        "43" => "stolen card",
        "54" => "expired card",
        "N7" => "incorrect cvv",
        AUTHENTICATION_REQUIRED => crate::transactions::reason::AUTHENTICATION_REQUIRED,
        _ => "declined",
    }
}

/// The reason as shown to the cardholder. Only the merchant learns that a card was reported lost or stolen: the person
/// who holds it may be the thief.
pub fn cardholder_reason(reason: &str) -> &str {
    match reason {
        "lost card" | "stolen card" => "declined",
        other => other,
    }
}

/// The issuer's CVV response: M or N, and none if no code was sent.
pub fn cvv_response(number: &CardNumber, code: Option<&SecurityCode>) -> Option<&'static str> {
    let wrong = CardBehavior::of(number) == CardBehavior::IncorrectCvv;
    code.map(|_| if wrong { "N" } else { "M" })
}

/// The issuer's AVS response: N for a postal code of zeros only, otherwise Y.
pub fn avs_response(zip_code: &str) -> &'static str {
    if zip_code.bytes().all(|byte| byte == b'0') { "N" } else { "Y" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_test_card_is_valid_and_has_its_response_code() {
        let cards = [
            ("4000000000000002", "05", "declined"),
            ("4000000000009995", "51", "insufficient funds"),
            ("4000000000009987", "41", "lost card"),
            ("4000000000009979", "43", "stolen card"),
            ("4000000000000069", "54", "expired card"),
            ("4000000000000127", "N7", "incorrect cvv"),
        ];
        for (number, code, why) in cards {
            let behavior = CardBehavior::of(&CardNumber::parse(number).expect(number));
            assert_eq!((behavior.auth_code(), reason(behavior.auth_code())), (code, why));
            let displayed = cardholder_reason(why);
            assert!(!displayed.contains("lost") && !displayed.contains("stolen"), "{displayed}");
        }
        for approving in ["4242424242424242", "4000002500003155", "5555555555554444"] {
            assert_eq!(CardBehavior::of(&CardNumber::parse(approving).expect(approving)).auth_code(), APPROVED);
        }
    }

    #[test]
    fn cvv_and_avs_responses_depend_on_card_and_postal_code() {
        let (good, bad) = (CardNumber::parse("4242424242424242"), CardNumber::parse("4000000000000127"));
        let code = SecurityCode::parse("123");
        assert_eq!(cvv_response(&good.clone().expect("a number"), code.as_ref()), Some("M"));
        assert_eq!(cvv_response(&bad.expect("a number"), code.as_ref()), Some("N"));
        assert_eq!(cvv_response(&good.expect("a number"), None), None);
        assert_eq!((avs_response("00000"), avs_response("10001")), ("N", "Y"));
    }
}

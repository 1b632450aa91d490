//! The test cards: how each behaves. Any other number approves.

use crate::cards::{Number, SecurityCode};

/// The code of an approval.
pub const APPROVED: &str = "00";
/// The code of a reference that was given up.
pub const BARRED: &str = "96";
/// The code of a decline for want of authentication.
pub const AUTHENTICATION_REQUIRED: &str = "1A";

/// How a card behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nature {
    /// Approves.
    Approves,
    /// The issuer says no and not why.
    Declined,
    /// There is not enough money.
    InsufficientFunds,
    /// Reported lost.
    Lost,
    /// Reported stolen.
    Stolen,
    /// Expired, whatever date is sent.
    Expired,
    /// The security code is wrong, whatever code is sent.
    WrongCode,
    /// Approves once its holder has confirmed.
    Authenticates,
}

impl Nature {
    /// By the number.
    pub fn of(number: &Number) -> Self {
        match number.expose() {
            "4000000000000002" => Self::Declined,
            "4000000000009995" => Self::InsufficientFunds,
            "4000000000009987" => Self::Lost,
            "4000000000009979" => Self::Stolen,
            "4000000000000069" => Self::Expired,
            "4000000000000127" => Self::WrongCode,
            "4000002500003155" => Self::Authenticates,
            _ => Self::Approves,
        }
    }

    /// What the issuer answers: ISO 8583's response codes, and N7 for the security code.
    pub const fn auth_code(self) -> &'static str {
        match self {
            Self::Approves | Self::Authenticates => APPROVED,
            Self::Declined => "05",
            Self::InsufficientFunds => "51",
            Self::Lost => "41",
            Self::Stolen => "43",
            Self::Expired => "54",
            Self::WrongCode => "N7",
        }
    }
}

/// The words for a code of the issuer.
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

/// The same, where its cardholder may read it. That a card was reported lost or stolen is told to the merchant alone: whoever
/// holds it may be the thief.
pub fn for_cardholder(reason: &str) -> &str {
    match reason {
        "lost card" | "stolen card" => "declined",
        other => other,
    }
}

/// What the issuer says to a security code: M or N, and nothing where none was sent.
pub fn cvv_response(number: &Number, code: Option<&SecurityCode>) -> Option<&'static str> {
    let wrong = Nature::of(number) == Nature::WrongCode;
    code.map(|_| if wrong { "N" } else { "M" })
}

/// What the issuer says to a postal code: N to one of zeros alone, Y to any other.
pub fn avs_response(zip_code: &str) -> &'static str {
    if zip_code.bytes().all(|byte| byte == b'0') { "N" } else { "Y" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_test_card_is_a_number_and_behaves() {
        let cards = [
            ("4000000000000002", "05", "declined"),
            ("4000000000009995", "51", "insufficient funds"),
            ("4000000000009987", "41", "lost card"),
            ("4000000000009979", "43", "stolen card"),
            ("4000000000000069", "54", "expired card"),
            ("4000000000000127", "N7", "incorrect cvv"),
        ];
        for (number, code, why) in cards {
            let nature = Nature::of(&Number::parse(number).expect(number));
            assert_eq!((nature.auth_code(), reason(nature.auth_code())), (code, why));
            let told = for_cardholder(why);
            assert!(!told.contains("lost") && !told.contains("stolen"), "{told}");
        }
        for approving in ["4242424242424242", "4000002500003155", "5555555555554444"] {
            assert_eq!(Nature::of(&Number::parse(approving).expect(approving)).auth_code(), APPROVED);
        }
    }

    #[test]
    fn codes_are_compared() {
        let (good, bad) = (Number::parse("4242424242424242"), Number::parse("4000000000000127"));
        let code = SecurityCode::parse("123");
        assert_eq!(cvv_response(&good.clone().expect("a number"), code.as_ref()), Some("M"));
        assert_eq!(cvv_response(&bad.expect("a number"), code.as_ref()), Some("N"));
        assert_eq!(cvv_response(&good.expect("a number"), None), None);
        assert_eq!((avs_response("00000"), avs_response("10001")), ("N", "Y"));
    }
}

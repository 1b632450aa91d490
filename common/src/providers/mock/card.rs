//! The test cards of the mock: each has a nature, which it keeps when it is saved.

use crate::providers::{Card, Decline, DeclineType};

/// How a test card behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nature {
    /// `tok_ok`: approved in full.
    Approves,
    /// `tok_partial`: approved for half of what is asked, rounded down.
    Partial,
    /// `tok_declined`: declined without a reason, and a retry may clear it.
    Declined,
    /// `tok_insufficient`: declined, and a retry may clear it.
    Insufficient,
    /// `tok_lost`: declined, and no retry will ever clear it.
    Lost,
    /// `tok_stolen`: likewise.
    Stolen,
    /// `tok_expired`: likewise.
    Expired,
    /// `tok_incorrect_cvc`: likewise.
    IncorrectCvc,
    /// `tok_authentication`: its bank wants to ask the cardholder, which the mock cannot; so it is declined for ever.
    Authentication,
}

impl Nature {
    /// Every one.
    pub const ALL: [Self; 9] = [
        Self::Approves,
        Self::Partial,
        Self::Declined,
        Self::Insufficient,
        Self::Lost,
        Self::Stolen,
        Self::Expired,
        Self::IncorrectCvc,
        Self::Authentication,
    ];

    /// The nature of a test token.
    pub fn of_token(token: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|nature| nature.token() == token)
    }

    /// The test token, which is also how the books name the nature.
    pub const fn token(self) -> &'static str {
        self.traits().0
    }

    /// The token, the last four digits, and how it is declined when it is.
    const fn traits(self) -> (&'static str, &'static str, &'static str, DeclineType) {
        use DeclineType::{Hard, Soft};
        match self {
            Self::Approves => ("tok_ok", "4242", "insufficient_funds", Soft),
            Self::Partial => ("tok_partial", "0010", "insufficient_funds", Soft),
            Self::Declined => ("tok_declined", "0002", "declined", Soft),
            Self::Insufficient => ("tok_insufficient", "9995", "insufficient_funds", Soft),
            Self::Lost => ("tok_lost", "9987", "lost_card", Hard),
            Self::Stolen => ("tok_stolen", "9979", "stolen_card", Hard),
            Self::Expired => ("tok_expired", "0069", "expired_card", Hard),
            Self::IncorrectCvc => ("tok_incorrect_cvc", "0127", "incorrect_cvc", Hard),
            Self::Authentication => ("tok_authentication", "3155", "authentication_required", Hard),
        }
    }

    /// What the card looks like.
    pub fn card(self) -> Card {
        let (_, last4, ..) = self.traits();
        Card { brand: "visa".into(), last4: last4.into(), exp_month: 12, exp_year: 2034 }
    }

    /// How much of an amount in minor units is approved.
    pub fn authorize(self, amount: i64) -> Result<i64, Decline> {
        match self {
            Self::Approves => Ok(amount),
            Self::Partial if amount / 2 > 0 => Ok(amount / 2),
            Self::Partial
            | Self::Declined
            | Self::Insufficient
            | Self::Lost
            | Self::Stolen
            | Self::Expired
            | Self::IncorrectCvc
            | Self::Authentication => Err(self.decline()),
        }
    }

    /// How the card is declined, when it is.
    pub(super) fn decline(self) -> Decline {
        let (_, _, code, kind) = self.traits();
        Decline { code: code.into(), kind }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_card_has_a_token_and_a_face_of_its_own() {
        for nature in Nature::ALL {
            assert_eq!(Nature::of_token(nature.token()), Some(nature));
            let alike = Nature::ALL.into_iter().filter(|other| other.card() == nature.card()).count();
            assert_eq!(alike, 1, "{nature:?}");
        }
        assert_eq!(Nature::of_token("tok_other"), None);
    }

    #[test]
    fn a_card_approves_or_says_why_not() {
        assert_eq!(Nature::Approves.authorize(501), Ok(501));
        assert_eq!(Nature::Partial.authorize(501), Ok(250));
        for (nature, amount, code, kind) in [
            (Nature::Partial, 1, "insufficient_funds", DeclineType::Soft),
            (Nature::Declined, 500, "declined", DeclineType::Soft),
            (Nature::Insufficient, 500, "insufficient_funds", DeclineType::Soft),
            (Nature::Lost, 500, "lost_card", DeclineType::Hard),
            (Nature::Stolen, 500, "stolen_card", DeclineType::Hard),
            (Nature::Expired, 500, "expired_card", DeclineType::Hard),
            (Nature::IncorrectCvc, 500, "incorrect_cvc", DeclineType::Hard),
            (Nature::Authentication, 500, "authentication_required", DeclineType::Hard),
        ] {
            assert_eq!(nature.authorize(amount), Err(Decline { code: code.into(), kind }), "{nature:?}");
        }
    }
}

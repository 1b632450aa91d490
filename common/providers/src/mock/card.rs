//! The mock's test cards. A saved card keeps the behavior of its token.

use crate::{Card, Decline, DeclineCode};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CardBehavior {
    /// `tok_ok`: approved in full.
    Approves,
    /// `tok_partial`: approved for half of the requested amount, rounded down.
    Partial,
    /// `tok_declined`: declined without a reason; a retry may succeed.
    Declined,
    /// `tok_insufficient`: declined; a retry may succeed.
    Insufficient,
    /// `tok_lost`: declined; a retry never succeeds.
    Lost,
    /// `tok_stolen`: likewise.
    Stolen,
    /// `tok_expired`: likewise.
    Expired,
    /// `tok_incorrect_cvc`: likewise.
    IncorrectCvc,
    /// `tok_authentication`: requires a challenge, which the mock does not support, so it is always declined.
    Authentication,
    /// `tok_disputed`: approved in full; disputed when it settles, and lost.
    Disputed,
    /// `tok_disputed_won`: likewise, and won.
    DisputedWon,
}

impl CardBehavior {
    pub const ALL: [Self; 11] = [
        Self::Approves,
        Self::Partial,
        Self::Declined,
        Self::Insufficient,
        Self::Lost,
        Self::Stolen,
        Self::Expired,
        Self::IncorrectCvc,
        Self::Authentication,
        Self::Disputed,
        Self::DisputedWon,
    ];

    pub fn of_token(token: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|behavior| behavior.token() == token)
    }

    /// The test token, which also identifies the behavior in the ledger.
    pub const fn token(self) -> &'static str {
        self.traits().0
    }

    /// The token, the last four digits, and the decline code, if the card is declined.
    const fn traits(self) -> (&'static str, &'static str, DeclineCode) {
        match self {
            Self::Approves => ("tok_ok", "4242", DeclineCode::InsufficientFunds),
            Self::Partial => ("tok_partial", "0010", DeclineCode::InsufficientFunds),
            Self::Declined => ("tok_declined", "0002", DeclineCode::Declined),
            Self::Insufficient => ("tok_insufficient", "9995", DeclineCode::InsufficientFunds),
            Self::Lost => ("tok_lost", "9987", DeclineCode::LostCard),
            Self::Stolen => ("tok_stolen", "9979", DeclineCode::StolenCard),
            Self::Expired => ("tok_expired", "0069", DeclineCode::ExpiredCard),
            Self::IncorrectCvc => ("tok_incorrect_cvc", "0127", DeclineCode::IncorrectCvc),
            Self::Authentication => ("tok_authentication", "3155", DeclineCode::AuthenticationRequired),
            Self::Disputed => ("tok_disputed", "0259", DeclineCode::InsufficientFunds),
            Self::DisputedWon => ("tok_disputed_won", "2685", DeclineCode::InsufficientFunds),
        }
    }

    /// The displayable details of the card.
    pub fn card(self) -> Card {
        let (_, last4, ..) = self.traits();
        Card { brand: "visa".into(), last4: last4.into(), exp_month: 12, exp_year: 2034 }
    }

    /// Returns the approved part of an amount in minor units.
    pub fn authorize(self, amount: i64) -> Result<i64, Decline> {
        match self {
            Self::Approves | Self::Disputed | Self::DisputedWon => Ok(amount),
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

    /// The decline of a card that is declined.
    pub(super) fn decline(self) -> Decline {
        let (.., code) = self.traits();
        code.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DeclineType;

    #[test]
    fn test_cards_have_distinct_tokens_and_details() {
        for behavior in CardBehavior::ALL {
            assert_eq!(CardBehavior::of_token(behavior.token()), Some(behavior));
            let alike = CardBehavior::ALL.into_iter().filter(|other| other.card() == behavior.card()).count();
            assert_eq!(alike, 1, "{behavior:?}");
        }
        assert_eq!(CardBehavior::of_token("tok_other"), None);
    }

    #[test]
    fn test_cards_are_approved_or_declined_with_a_code() {
        assert_eq!(CardBehavior::Approves.authorize(501), Ok(501));
        assert_eq!(CardBehavior::Partial.authorize(501), Ok(250));
        for (behavior, amount, code, kind) in [
            (CardBehavior::Partial, 1, "insufficient_funds", DeclineType::Soft),
            (CardBehavior::Declined, 500, "declined", DeclineType::Soft),
            (CardBehavior::Insufficient, 500, "insufficient_funds", DeclineType::Soft),
            (CardBehavior::Lost, 500, "lost_card", DeclineType::Hard),
            (CardBehavior::Stolen, 500, "stolen_card", DeclineType::Hard),
            (CardBehavior::Expired, 500, "expired_card", DeclineType::Hard),
            (CardBehavior::IncorrectCvc, 500, "incorrect_cvc", DeclineType::Hard),
            (CardBehavior::Authentication, 500, "authentication_required", DeclineType::Hard),
        ] {
            assert_eq!(behavior.authorize(amount), Err(Decline { code: code.into(), kind }), "{behavior:?}");
        }
    }
}

//! The test cards of the mock: four natures, which a card keeps when it is saved.

use crate::providers::{Card, Decline, DeclineType};

/// How a test card behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nature {
    /// `tok_ok`: approved in full.
    Approves,
    /// `tok_partial`: approved for half of what is asked, rounded down.
    Partial,
    /// `tok_insufficient`: declined, and a retry may clear it.
    Insufficient,
    /// `tok_lost`: declined, and no retry will ever clear it.
    Lost,
}

impl Nature {
    const ALL: [Self; 4] = [Self::Approves, Self::Partial, Self::Insufficient, Self::Lost];

    /// The nature of a test token.
    pub fn of_token(token: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|nature| nature.token() == token)
    }

    /// The test token, which is also how the books name the nature.
    pub const fn token(self) -> &'static str {
        match self {
            Self::Approves => "tok_ok",
            Self::Partial => "tok_partial",
            Self::Insufficient => "tok_insufficient",
            Self::Lost => "tok_lost",
        }
    }

    /// What the card looks like.
    pub fn card(self) -> Card {
        let last4 = match self {
            Self::Approves => "4242",
            Self::Partial => "0010",
            Self::Insufficient => "9995",
            Self::Lost => "9987",
        };
        Card { brand: "visa".into(), last4: last4.into(), exp_month: 12, exp_year: 2034 }
    }

    /// How much of an amount in minor units is approved.
    pub fn authorize(self, amount: i64) -> Result<i64, Decline> {
        match self {
            Self::Approves => Ok(amount),
            Self::Partial if amount / 2 > 0 => Ok(amount / 2),
            Self::Partial | Self::Insufficient | Self::Lost => Err(self.decline()),
        }
    }

    /// How the card is declined, when it is.
    pub(super) fn decline(self) -> Decline {
        let (code, kind) = match self {
            Self::Approves | Self::Partial | Self::Insufficient => ("insufficient_funds", DeclineType::Soft),
            Self::Lost => ("lost_card", DeclineType::Hard),
        };
        Decline { code: code.into(), kind }
    }
}

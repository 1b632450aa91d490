//! A card to be charged, and where it came from.

use super::{CardNumber, Cardholder, MaskedCard, ProxyHash, SecurityCode, TokenHash};

/// Where the card came from, as shown in the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum Source {
    /// A card number: plain, encrypted, or a proxy number.
    Api,
    /// A vault token.
    CardToken,
    /// A card field's token.
    #[sqlx(rename = "capture_field")]
    CardField,
    /// A wallet token.
    Wallet,
}

impl Source {
    /// The name in the report.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Api => "API",
            Self::CardToken => "CARD TOKEN",
            Self::CardField => "CAPTURE FIELD",
            Self::Wallet => "WALLET",
        }
    }
}

/// A card that can be charged.
#[derive(Clone, Debug)]
pub struct Funding {
    pub number: CardNumber,
    pub masked_card: MaskedCard,
    pub security_code: Option<SecurityCode>,
    pub holder: Cardholder,
    pub source: Source,
    /// The card field's token, which the charge uses up.
    pub field_token: Option<TokenHash>,
    /// The proxy number, which an approval binds to the account.
    pub proxy: Option<ProxyHash>,
}

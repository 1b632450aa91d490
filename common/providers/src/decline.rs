//! Declines by the issuer, with codes that are the same for all providers.

use serde::Serialize;

use foundation::schema;

/// Whether a retry with the same card may succeed:
/// - `soft`: it may, later.
/// - `hard`: it never does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, sqlx::Type, utoipa::ToSchema)]
#[sqlx(type_name = "decline_type", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum DeclineType {
    Soft,
    Hard,
}

impl DeclineType {
    /// Name in the API.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Soft => "soft",
            Self::Hard => "hard",
        }
    }
}

macro_rules! decline_codes {
    ($($name:ident = $text:literal, $kind:ident: $meaning:literal,)*) => {
        /// Why a card was declined: `declineCode` in the API.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum DeclineCode { $($name,)* }

        impl DeclineCode {
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Name in the API.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// Whether a retry may succeed.
            pub const fn kind(self) -> DeclineType {
                match self { $(Self::$name => DeclineType::$kind,)* }
            }

            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$name => $meaning,)* }
            }
        }
    };
}

decline_codes! {
    Declined = "declined", Soft: "The issuer gave no reason.",
    InsufficientFunds = "insufficient_funds", Soft: "The card has too little money or credit.",
    AuthenticationFailed = "authentication_failed", Soft: "The cardholder refused the 3-D Secure challenge or did not complete it.",
    SaleLimitExceeded = "sale_limit_exceeded", Soft: "The amount exceeds what the provider accepts from the account at once.",
    MonthlyLimitExceeded = "monthly_limit_exceeded", Soft: "The account has reached its provider's limit for a month.",
    TransactionLimitExceeded = "transaction_limit_exceeded", Soft: "The account has reached its provider's limit of payments for a day.",
    IpLimitExceeded = "ip_limit_exceeded", Soft: "Too many payments came from one IP address.",
    AuthenticationRequired = "authentication_required", Hard: "The issuer requires 3-D Secure, and no cardholder is present, as in a collection.",
    LostCard = "lost_card", Hard: "The card was reported lost. Do not tell the payer.",
    StolenCard = "stolen_card", Hard: "The card was reported stolen. Do not tell the payer.",
    ExpiredCard = "expired_card", Hard: "The card has expired.",
    IncorrectCvc = "incorrect_cvc", Hard: "The security code is wrong.",
    CardNotSupported = "card_not_supported", Hard: "The account's provider does not accept cards of this brand.",
    CurrencyNotSupported = "currency_not_supported", Hard: "The account's provider does not accept the card in this currency.",
}

impl DeclineCode {
    /// The code with this name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.name() == name)
    }
}

schema::schema_is!(
    DeclineCode,
    schema::explained(
        "Why the payment was declined. The codes are the same for all providers:",
        DeclineCode::ALL.iter().map(|code| (code.name(), code.kind().name(), code.meaning())),
    )
);

/// Why the issuer declined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decline {
    /// The name of a [`DeclineCode`], or another code that an operator entered.
    pub code: String,
    pub kind: DeclineType,
}

impl From<DeclineCode> for Decline {
    fn from(code: DeclineCode) -> Self {
        Self { code: code.name().to_owned(), kind: code.kind() }
    }
}

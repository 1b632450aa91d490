//! Transactions: a row first, then the acquirer, then the row's end. `enter.rs` begins charges, `change.rs` what follows them,
//! `outcome.rs` ends both, and `recover.rs` ends what was left behind.

pub mod change;
pub mod enter;
pub mod outcome;
pub mod recover;
pub mod rules;
mod store;

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::amount::Amount;
use crate::cards::source::Funding;
use crate::receipts::Wanted;

/// What a transaction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum Kind {
    /// Takes money at once.
    Sale,
    /// Holds money.
    Authorize,
    /// Takes money that is held.
    Capture,
    /// Undoes a sale, an authorization or a credit that has not settled.
    Void,
    /// Gives money of a sale or capture back.
    Refund,
    /// Gives money to a card without a sale.
    Credit,
}

impl Kind {
    /// Every one.
    pub const ALL: [Self; 6] = [Self::Sale, Self::Authorize, Self::Capture, Self::Void, Self::Refund, Self::Credit];

    /// As the report names it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sale => "SALE",
            Self::Authorize => "AUTHORIZE",
            Self::Capture => "CAPTURE",
            Self::Void => "VOID",
            Self::Refund => "REFUND",
            Self::Credit => "CREDIT",
        }
    }

    /// Whether it takes or holds a cardholder's money.
    pub const fn is_charge(self) -> bool {
        match self {
            Self::Sale | Self::Authorize => true,
            Self::Capture | Self::Void | Self::Refund | Self::Credit => false,
        }
    }
}

/// How far a transaction is. The last three are ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum State {
    /// Its cardholder is being asked.
    Challenged,
    /// The acquirer is being asked, or somebody was killed while it was.
    InProgress,
    /// Done.
    Approved,
    /// The issuer said no, or its cardholder did.
    Declined,
    /// It was never done.
    Failed,
}

/// Why a transaction is not a success, in the words of the report.
pub mod reason {
    /// The acquirer is being asked.
    pub const IN_PROGRESS: &str = "in progress";
    /// The cardholder is being asked.
    pub const PENDING_AUTHENTICATION: &str = "pending cardholder authentication";
    /// The cardholder said no.
    pub const AUTHENTICATION_REFUSED: &str = "cardholder authentication refused";
    /// The cardholder said nothing for thirty seconds.
    pub const AUTHENTICATION_EXPIRED: &str = "cardholder authentication expired";
    /// The issuer wants to ask the cardholder, and the caller gave no way to.
    pub const AUTHENTICATION_REQUIRED: &str = "authentication required";
    /// The account declines what is not authenticated.
    pub const NOT_AUTHENTICATED: &str = "card not authenticated";
    /// The gateway was interrupted before the acquirer had it; the acquirer will not take it any more.
    pub const NOT_PROCESSED: &str = "not processed";
}

/// A postal address, of billing or shipping.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Address {
    /// Company.
    pub company_name: Option<String>,
    /// First name.
    pub first_name: String,
    /// Last name.
    pub last_name: String,
    /// Street.
    pub address: Option<String>,
    /// City.
    pub city: Option<String>,
    /// State or province.
    pub state: Option<String>,
    /// Two letters.
    pub country_code: String,
    /// Postal code.
    pub zip_code: String,
    /// Telephone.
    pub phone_number: Option<String>,
}

/// What is kept to be shown and never decided by.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Details {
    /// Who pays.
    pub billing: Address,
    /// Who gets what was bought.
    pub shipping: Option<Address>,
    /// The cardholder's e-mail.
    pub email: String,
    /// A note.
    pub memo: Option<String>,
    /// As sent.
    pub custom_field_1: Option<String>,
    /// As sent, and as the contract spells it.
    pub custom_filed_2: Option<String>,
}

/// A sale, authorization or credit to be entered.
#[derive(Debug)]
pub struct NewCharge {
    /// Which of the three.
    pub kind: Kind,
    /// The card.
    pub funding: Funding,
    /// How much was asked.
    pub amount: Amount,
    /// What the account adds to it.
    pub fee: Amount,
    /// Of what.
    pub currency: String,
    /// The caller's name for it.
    pub reference_id: Option<String>,
    /// Where the cardholder sits.
    pub client_ip: Option<IpAddr>,
    /// Where the cardholder goes after a challenge.
    pub return_url: Option<String>,
    /// The wallet's token that is used up by it.
    pub wallet_token: Option<uuid::Uuid>,
    /// Who is to have a receipt.
    pub receipts: Wanted,
    /// The rest.
    pub details: Details,
}

impl NewCharge {
    /// What is charged, and what every limit and bound is about.
    pub const fn total(&self) -> Amount {
        Amount::hundredths(self.amount.get() + self.fee.get())
    }
}

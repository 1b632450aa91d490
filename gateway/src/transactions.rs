//! What a transaction is. `processing` enters and finishes them.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::amount::Amount;
use crate::cards::funding::Funding;

#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum TransactionKind {
    /// Charges at once.
    Sale,
    Authorize,
    Capture,
    /// Cancels a sale, an authorization or a credit that has not settled.
    Void,
    /// Returns money of a sale or capture.
    Refund,
    /// Sends money to a card without a preceding sale.
    Credit,
}

impl TransactionKind {
    pub const ALL: [Self; 6] = [Self::Sale, Self::Authorize, Self::Capture, Self::Void, Self::Refund, Self::Credit];

    /// The name in the report.
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

    /// Whether it charges the card or holds an amount on it.
    pub const fn is_charge(self) -> bool {
        match self {
            Self::Sale | Self::Authorize => true,
            Self::Capture | Self::Void | Self::Refund | Self::Credit => false,
        }
    }
}

/// The last three are final.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum State {
    /// Waiting for the cardholder's confirmation.
    Challenged,
    /// At the acquirer, or abandoned by a process that was killed.
    InProgress,
    Approved,
    /// By the issuer or the cardholder.
    Declined,
    /// It never took effect.
    Failed,
}

impl State {
    /// The `decline_reason` of a transaction in this state, with the stored reason.
    pub fn decline_reason(self, stored: Option<String>) -> String {
        match self {
            Self::Challenged => reason::PENDING_AUTHENTICATION.to_owned(),
            Self::InProgress => reason::IN_PROGRESS.to_owned(),
            Self::Approved => String::new(),
            Self::Declined | Self::Failed => stored.unwrap_or_default(),
        }
    }
}

/// Values of `decline_reason` in the report.
pub mod reason {
    /// At the acquirer.
    pub const IN_PROGRESS: &str = "in progress";
    /// Waiting for the cardholder's confirmation.
    pub const PENDING_AUTHENTICATION: &str = "pending cardholder authentication";
    /// The cardholder refused.
    pub const AUTHENTICATION_REFUSED: &str = "cardholder authentication refused";
    /// The cardholder did not respond within thirty seconds.
    pub const AUTHENTICATION_EXPIRED: &str = "cardholder authentication expired";
    /// The issuer requires authentication, and the request had no return URL for a challenge.
    pub const AUTHENTICATION_REQUIRED: &str = "authentication required";
    /// The account declines cards that were not authenticated.
    pub const NOT_AUTHENTICATED: &str = "card not authenticated";
    /// The gateway was interrupted before the acquirer received the request; the reference is now blocked.
    pub const NOT_PROCESSED: &str = "not processed";
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Address {
    pub company_name: Option<String>,
    pub first_name: String,
    pub last_name: String,
    pub address: Option<String>,
    pub city: Option<String>,
    pub state: Option<String>,
    /// ISO 3166-1 alpha-2.
    pub country_code: String,
    pub zip_code: String,
    pub phone_number: Option<String>,
}

/// Stored for display only; no decision depends on it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Details {
    pub billing: Address,
    /// The shipping address.
    pub shipping: Option<Address>,
    pub email: String,
    pub memo: Option<String>,
    pub custom_field_1: Option<String>,
    /// Spelled as in the contract.
    pub custom_filed_2: Option<String>,
}

/// Who gets a receipt of a success.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReceiptRequest {
    /// The cardholder, at the form's `email`.
    pub cardholder: bool,
    /// The merchant, at the account's contact address.
    pub merchant: bool,
}

/// A sale, authorization or credit to be entered.
#[derive(Debug)]
pub struct NewCharge {
    pub kind: TransactionKind,
    pub funding: Funding,
    /// The requested amount.
    pub amount: Amount,
    /// The account's convenience fee on top.
    pub fee: Amount,
    pub currency: String,
    /// The caller's reference.
    pub reference_id: Option<String>,
    /// The cardholder's IP address.
    pub client_ip: Option<IpAddr>,
    /// Where the cardholder returns to after a challenge.
    pub return_url: Option<String>,
    /// The id of the wallet token, which can be used once.
    pub wallet_token: Option<uuid::Uuid>,
    /// Who gets a receipt.
    pub receipts: ReceiptRequest,
    pub details: Details,
}

impl NewCharge {
    /// The charged amount, to which all limits apply.
    pub const fn total(&self) -> Amount {
        Amount::from_minor(self.amount.get() + self.fee.get())
    }
}

//! Why a request did not succeed: the contract's codes, and cases for which the contract has no code.

use std::borrow::Cow;

/// The error codes of docs/gateway.md, Codes. The two success codes are not among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    Username,
    Card,
    Expiry,
    Name,
    Country,
    Email,
    Amount,
    CurrencyMissing,
    ApiKey,
    CurrencyNotAllowed,
    LoadBalancer,
    TransactionId,
    RefundVoided,
    RefundExceeds,
    CaptureNotPossible,
    VoidNotPossible,
    SaleLimit,
    MonthlyLimit,
    TransactionLimit,
    AddressLimit,
    Profanity,
    Address,
    Date,
    TransactionType,
    TransactionStatus,
    Duplicate,
    EntryFailed,
    UpdateFailed,
    Page,
    Unknown,
    Declined,
}

impl Code {
    /// As sent in the response.
    pub const fn code(self) -> &'static str {
        self.entry().0
    }

    /// The contract's text.
    pub const fn description(self) -> &'static str {
        self.entry().1
    }

    const fn entry(self) -> (&'static str, &'static str) {
        match self {
            Self::Username => ("01", "Username missing or invalid"),
            Self::Card => ("02", "Credit card missing or invalid"),
            Self::Expiry => ("03", "Expiration date missing or invalid"),
            Self::Name => ("04", "First or last name missing"),
            Self::Country => ("05", "Invalid country code"),
            Self::Email => ("06", "Proper cardholder e-mail missing"),
            Self::Amount => ("07", "Invalid amount"),
            Self::CurrencyMissing => ("08", "Transaction currency missing"),
            Self::ApiKey => ("09", "API key missing or invalid"),
            Self::CurrencyNotAllowed => ("10", "Requested currency not allowed for this merchant"),
            Self::LoadBalancer => ("11", "Could not process due to load balancer rules"),
            Self::TransactionId => ("12", "Transaction id missing or invalid"),
            Self::RefundVoided => ("13", "Refund not possible, already voided"),
            Self::RefundExceeds => ("14", "Refund not possible, exceeds actual amount"),
            Self::CaptureNotPossible => ("15", "Capture not possible"),
            Self::VoidNotPossible => ("16", "Void not possible"),
            Self::SaleLimit => ("17", "Sale limit exceeded"),
            Self::MonthlyLimit => ("18", "Monthly limit exceeded"),
            Self::TransactionLimit => ("19", "Transaction limit exceeded"),
            Self::AddressLimit => ("20", "IP/transaction limit exceeded"),
            Self::Profanity => ("21", "Message blocked for profanity under company policy"),
            Self::Address => ("22", "IP address missing or invalid"),
            Self::Date => ("23", "Invalid date format"),
            Self::TransactionType => ("24", "Transaction type not valid"),
            Self::TransactionStatus => ("25", "Transaction status not valid"),
            Self::Duplicate => ("26", "Potential duplicate transaction"),
            Self::EntryFailed => ("A1", "Transaction entry failed"),
            Self::UpdateFailed => ("A2", "Transaction update failed"),
            Self::Page => ("P1", "Invalid page number"),
            Self::Unknown => ("UN", "Unknown error; contact an administrator"),
            Self::Declined => ("F", "Transaction declined"),
        }
    }

    /// A refusal with the contract's text.
    pub const fn refuse(self) -> Failure {
        Failure::Refused(self, Cow::Borrowed(self.description()))
    }

    /// A refusal with the contract's text and a detail.
    pub fn because(self, more: &str) -> Failure {
        Failure::Refused(self, format!("{}: {more}", self.description()).into())
    }
}

/// Why a request did not succeed.
#[derive(Debug)]
pub enum Failure {
    /// A code of the contract with its description.
    Refused(Code, Cow<'static, str>),
    /// Nothing was entered and nothing will be, for a reason that concerns every request: the database is unavailable or
    /// the request came too late. Safe to repeat. The description ends with [`NOTHING_ENTERED`].
    NotEntered(&'static str),
    /// A rate limit was exceeded, so the request was not processed.
    TooMany {
        /// When to retry.
        seconds: u64,
    },
    /// A transaction may have been entered, and its outcome is not known.
    Unknown,
}

/// By these words callers tell a failure of the gateway from one of the request, whose code may be the same.
const NOTHING_ENTERED: &str = "nothing was entered";

pub type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    /// For any request at the moment.
    const UNAVAILABLE: Self = Self::NotEntered("the gateway cannot process the request now");

    /// A field that has no code of its own is missing or invalid.
    pub fn field(name: &str, problem: &str) -> Self {
        Code::EntryFailed.because(&format!("{name} {problem}"))
    }

    /// Code and description of the response. `fallback` is the operation's code for a request that was not entered.
    pub fn describe(self, fallback: Code) -> (Code, Cow<'static, str>) {
        match self {
            Self::Refused(code, description) => (code, description),
            Self::NotEntered(why) => (fallback, format!("{}: {why}; {NOTHING_ENTERED}", fallback.description()).into()),
            Self::TooMany { seconds } => {
                (Code::Unknown, format!("Too many requests; nothing was entered. Try again in {seconds} s").into())
            }
            Self::Unknown => (Code::Unknown, "Unknown error: the outcome is not known yet; check the report".into()),
        }
    }
}

/// Only for failures before a commit. After one, the caller must return [`Failure::Unknown`].
impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        tracing::error!(%error, "a database error failed a request before anything was entered");
        Self::UNAVAILABLE
    }
}

/// Only for failures before a commit.
impl From<foundation::error::Error> for Failure {
    fn from(error: foundation::error::Error) -> Self {
        tracing::warn!(%error, "a request failed before anything was entered");
        Self::UNAVAILABLE
    }
}

//! Why a request was not done: the codes of the contract, and two cases that it has no code for.

use std::borrow::Cow;

/// The codes of docs/gateway.md, Codes. The two that mean success are none of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// 01
    Username,
    /// 02
    Card,
    /// 03
    Expiry,
    /// 04
    Name,
    /// 05
    Country,
    /// 06
    Email,
    /// 07
    Amount,
    /// 08
    CurrencyMissing,
    /// 09
    ApiKey,
    /// 10
    CurrencyNotAllowed,
    /// 11
    LoadBalancer,
    /// 12
    TransactionId,
    /// 13
    RefundVoided,
    /// 14
    RefundExceeds,
    /// 15
    CaptureNotPossible,
    /// 16
    VoidNotPossible,
    /// 17
    SaleLimit,
    /// 18
    MonthlyLimit,
    /// 19
    TransactionLimit,
    /// 20
    AddressLimit,
    /// 21
    Profanity,
    /// 22
    Address,
    /// 23
    Date,
    /// 24
    TransactionType,
    /// 25
    TransactionStatus,
    /// 26
    Duplicate,
    /// A1
    EntryFailed,
    /// A2
    UpdateFailed,
    /// P1
    Page,
    /// UN
    Unknown,
    /// F
    Declined,
}

impl Code {
    /// As it is answered.
    pub const fn code(self) -> &'static str {
        self.entry().0
    }

    /// What it means, in the contract's words.
    pub const fn meaning(self) -> &'static str {
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

    /// A refusal in the contract's words.
    pub const fn refuse(self) -> Failure {
        Failure::Refused(self, Cow::Borrowed(self.meaning()))
    }

    /// A refusal that says more.
    pub fn because(self, more: &str) -> Failure {
        Failure::Refused(self, format!("{}: {more}", self.meaning()).into())
    }
}

/// Why there is no success to answer.
#[derive(Debug)]
pub enum Failure {
    /// A code of the contract, and its description.
    Refused(Code, Cow<'static, str>),
    /// Nothing was entered and nothing will be: the database is away, or the request came too late. Safe to repeat.
    NotEntered(&'static str),
    /// Too many requests of a browser, or attempts that failed: it was not looked at.
    TooMany {
        /// When to come again.
        seconds: u64,
    },
    /// A transaction may have been entered, and its end is not known.
    Unknown,
}

/// What came of a request.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    /// A field that has no code of its own is missing or unusable.
    pub fn field(name: &str, problem: &str) -> Self {
        Code::EntryFailed.because(&format!("{name} {problem}"))
    }

    /// The code by which the contract would have it told, given what the request would have done.
    pub fn told(self, otherwise: Code) -> (Code, Cow<'static, str>) {
        match self {
            Self::Refused(code, description) => (code, description),
            Self::NotEntered(why) => (otherwise, format!("{}: {why}", otherwise.meaning()).into()),
            Self::TooMany { seconds } => {
                (Code::Unknown, format!("Too many requests; nothing was entered. Try again in {seconds} s").into())
            }
            Self::Unknown => {
                (Code::Unknown, "Unknown error: the outcome is not known yet; the report will tell it".into())
            }
        }
    }
}

/// A failure before anything was committed. After that, whoever meets one says [`Failure::Unknown`].
impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        tracing::error!(%error, "the database failed a request before anything was entered");
        Self::NotEntered("the gateway cannot take it now, and nothing was entered")
    }
}

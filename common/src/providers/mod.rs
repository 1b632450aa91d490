//! What a card provider is to us: a small trait, and facts about each kind that need no request.
//!
//! No method takes a connection to our database, so none can be held while a provider is waited for. An adapter never
//! repeats a request on its own: a second try is a decision of the charge protocol (docs/architecture.md).

mod booked;
pub mod card_gateway;
#[cfg(test)]
mod contract;
mod failure;
pub mod mock;
mod statement;

pub use failure::{Cause, FailureCode, Fault};

use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::Serialize;
use ulid::Ulid;

pub use booked::{Booked, BookedKind, BookedState};

use crate::capabilities::Operation;
use crate::crypto::Secret;
use crate::id::ProviderAccountId;
use crate::money::{Currency, Money};
use crate::operations::Kind;
use crate::time::Timestamp;

pub use statement::{ChargeReport, Entry, Followed, StatementLine};

/// Which provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, sqlx::Type)]
#[sqlx(type_name = "provider_kind", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum ProviderKind {
    /// The one of the sandbox, in-process, with books of its own.
    Mock,
    /// Our own card gateway.
    CardGateway,
}

impl ProviderKind {
    /// Every one.
    pub const ALL: [Self; 2] = [Self::Mock, Self::CardGateway];

    /// No authorization holds longer, at whichever provider.
    pub const LONGEST_AUTHORIZATION: Duration = Duration::from_secs(7 * 24 * 3600);

    /// Its name in metrics and at the operator's command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mock => "mock",
            Self::CardGateway => "card_gateway",
        }
    }

    /// Whether this is exactly what it calls a transaction of its own: `mock_` and 24 hexadecimal digits, or the gateway's ULID.
    pub fn names(self, provider_ref: &str) -> bool {
        match self {
            Self::Mock => provider_ref
                .strip_prefix("mock_")
                .is_some_and(|hex| hex.len() == 24 && hex.bytes().all(|b| b.is_ascii_hexdigit())),
            Self::CardGateway => provider_ref.len() == 26 && Ulid::from_string(provider_ref).is_ok(),
        }
    }

    /// Operations that it can never do.
    pub const fn unsupported(self) -> &'static [Operation] {
        match self {
            Self::Mock | Self::CardGateway => &[],
        }
    }

    /// The currencies that it takes; none if it takes all there are.
    pub const fn currencies(self) -> Option<&'static [&'static str]> {
        match self {
            Self::Mock => None,
            Self::CardGateway => Some(&card_gateway::CURRENCIES),
        }
    }

    /// Those that take some currencies alone, and each with each of these, as SQL compares them.
    pub fn limits() -> (Vec<&'static str>, Vec<String>) {
        let limited = Self::ALL.iter().filter_map(|kind| kind.currencies().map(|codes| (kind.name(), codes)));
        let pairs = limited.clone().flat_map(|(name, codes)| codes.iter().map(move |code| format!("{name} {code}")));
        (limited.clone().map(|(name, _)| name).collect(), pairs.collect())
    }

    /// Whether it may be paid in this currency, at an account that may be kept to some (`own`).
    pub fn takes(self, currency: Currency, own: Option<&[String]>) -> bool {
        let code = currency.code();
        self.currencies().is_none_or(|all| all.contains(&code))
            && own.is_none_or(|own| own.iter().any(|known| known == code))
    }

    /// Whether a cardholder may be asked before it decides.
    pub const fn may_challenge(self) -> bool {
        match self {
            Self::Mock => false,
            Self::CardGateway => true,
        }
    }

    /// Whether it may approve less than was asked.
    pub const fn may_approve_part(self) -> bool {
        match self {
            Self::Mock => true,
            Self::CardGateway => false,
        }
    }

    /// Whether this is a test token of the provider: usable any number of times, by test accounts alone.
    pub fn is_test_token(self, token: &str) -> bool {
        match self {
            Self::Mock => mock::Nature::of_token(token).is_some(),
            Self::CardGateway => false,
        }
    }

    /// Its test tokens.
    pub fn test_tokens(self) -> Vec<&'static str> {
        match self {
            Self::Mock => mock::Nature::ALL.into_iter().map(mock::Nature::token).collect(),
            Self::CardGateway => vec![],
        }
    }

    /// How long after capture it is asked for the first time whether the money has settled.
    pub const fn settles_after(self) -> Duration {
        match self {
            Self::Mock => mock::SETTLES_AFTER,
            Self::CardGateway => card_gateway::FIRST_INQUIRY_AFTER,
        }
    }

    /// How long an authorization holds.
    pub const fn authorization_lifetime(self) -> Duration {
        match self {
            Self::Mock => mock::AUTHORIZATION_LIFETIME,
            Self::CardGateway => Self::LONGEST_AUTHORIZATION,
        }
    }
}

/// What a card looks like from outside. Never its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    /// `visa`, `mastercard`, …
    pub brand: String,
    /// The last four digits.
    pub last4: String,
    /// 1 to 12.
    pub exp_month: i16,
    /// Four digits.
    pub exp_year: i16,
}

impl Card {
    /// Whether it looks as the fields say. Whatever else a provider says is nothing that can be shown or kept.
    fn is_shown(&self) -> bool {
        let brand = (1..=40).contains(&self.brand.len()) && !self.brand.chars().any(char::is_control);
        let last4 = self.last4.len() == 4 && self.last4.bytes().all(|byte| byte.is_ascii_digit());
        brand && last4 && (1..=12).contains(&self.exp_month) && (1000..=9999).contains(&self.exp_year)
    }
}

/// Whether a retry of the same card may succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, sqlx::Type, utoipa::ToSchema)]
#[sqlx(type_name = "decline_type", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum DeclineType {
    /// Later it may: insufficient funds, a limit.
    Soft,
    /// Never: lost, stolen, expired.
    Hard,
}

/// Why the issuer said no.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decline {
    /// Our word for the reason, such as `insufficient_funds`; the same whichever provider said it.
    pub code: String,
    /// Soft or hard.
    pub kind: DeclineType,
}

/// What pays.
#[derive(Clone, Debug)]
pub enum Source {
    /// The provider's single-use token.
    Token(Secret<String>),
    /// The provider's name for a saved card.
    Card(String),
}

/// What is asked of the provider.
#[derive(Clone, Debug)]
pub enum Action {
    /// Authorize, and capture in the same breath if `capture`.
    Charge {
        /// What pays.
        source: Source,
        /// How much.
        money: Money,
        /// A sale, or an authorization alone.
        capture: bool,
    },
    /// Take money that was authorized.
    Capture {
        /// The provider's name for the charge.
        charge: String,
        /// How much of it.
        money: Money,
    },
    /// Cancel a charge that has not settled.
    Void {
        /// The provider's name for the charge.
        charge: String,
    },
    /// Give money back.
    Refund {
        /// The provider's name for the charge.
        charge: String,
        /// How much of it.
        money: Money,
    },
    /// Keep a card for later.
    StoreCard {
        /// The provider's single-use token.
        token: Secret<String>,
    },
}

/// One request. Sent again, it is the same: the reference never changes.
#[derive(Clone, Debug)]
pub struct Request {
    /// At which provider account.
    pub account: ProviderAccountId,
    /// Our name for it, unique at the provider account.
    pub reference: String,
    /// What is asked.
    pub action: Action,
    /// The time on the account's clock, which the mock follows.
    pub now: Timestamp,
    /// Where a cardholder who is challenged comes back to. None if nobody is there to be asked.
    pub return_url: Option<String>,
    /// Who pays, for a provider that wants to know.
    pub payer: Option<Payer>,
    /// Where the payer has come from, if that is known: an address of the internet.
    pub payer_address: Option<String>,
    /// Until when the provider may begin it, by the database's clock: whoever takes the operation up later counts on that.
    pub valid_until: Timestamp,
    /// Of a refund that is looked up: the provider's names of those that our books have.
    pub recorded: Vec<String>,
}

/// Who pays, as far as we know: what a provider demands of a form is filled in with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payer {
    /// An e-mail address.
    pub email: String,
    /// A name in one piece.
    pub name: String,
}

/// What a provider said. All of these are known, and all but a challenge are outcomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The charge is approved.
    Charged {
        /// The provider's name for it.
        provider_ref: String,
        /// How much, in minor units: less than asked is a partial authorization.
        amount: i64,
        /// The card that pays; none if the provider says nothing of a card that we named.
        card: Option<Card>,
    },
    /// The cardholder is asked first. What comes of it is looked up.
    Challenged {
        /// Where the cardholder is to go.
        url: String,
    },
    /// A capture, void or refund is done.
    Done {
        /// The provider's name for it.
        provider_ref: String,
    },
    /// A card is kept.
    Stored {
        /// The provider's name for it.
        provider_ref: String,
        /// What it looks like.
        card: Card,
    },
    /// The issuer said no.
    Declined {
        /// Why.
        decline: Decline,
        /// The card, where it is known.
        card: Option<Card>,
    },
    /// The charge was approved with another total than was asked (a fee was added, say): no payment wants it, so it is reversed.
    Mismatched {
        /// The provider's name for it.
        provider_ref: String,
        /// What was charged, in minor units.
        total: i64,
    },
    /// The provider would not process the request at all; nothing moved.
    Refused {
        /// Why, for the caller.
        code: FailureCode,
        /// In the provider's words, for the person on call.
        reason: String,
    },
}

impl Answer {
    /// The provider's no to what was asked.
    pub fn refused(reason: impl Into<String>) -> Self {
        Self::Refused { code: FailureCode::ProviderRefused, reason: reason.into() }
    }

    /// The provider entered the request and never processed it: nothing was done, and its reference is used up.
    pub fn never_processed(reason: impl Into<String>) -> Self {
        Self::Refused { code: FailureCode::ProviderUnavailable, reason: reason.into() }
    }
}

/// What a provider offers to whoever lost its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryClass {
    /// A: a repeated reference gets the first answer. Send again.
    Idempotent,
    /// B: a reference can be looked up, and a repeated one is refused. Ask first.
    Lookup,
    /// C: neither. A person decides.
    Neither,
}

impl RecoveryClass {
    /// As people call it.
    pub const fn letter(self) -> &'static str {
        match self {
            Self::Idempotent => "A",
            Self::Lookup => "B",
            Self::Neither => "C",
        }
    }
}

/// What a look-up by reference found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// The request arrived, and this came of it.
    Answer(Answer),
    /// The request arrived, and nothing has come of it yet: it is being processed, or its cardholder is being asked.
    Pending,
    /// No such reference so far.
    Nothing,
}

/// A charge that is asked about.
#[derive(Clone, Debug)]
pub struct Inquired {
    /// Where it was made.
    pub account: ProviderAccountId,
    /// The provider's name for it.
    pub charge: String,
    /// Our name for it.
    pub reference: String,
    /// When it was made, on the account's clock.
    pub created_at: Timestamp,
    /// When money was taken, on the account's clock.
    pub captured_at: Option<Timestamp>,
    /// The time on the account's clock.
    pub now: Timestamp,
}

/// How an approved charge stands at the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Held or captured; neither settled nor over.
    Open {
        /// Before that nothing becomes of it by itself, as far as is known.
        until: Option<Timestamp>,
    },
    /// The money has arrived.
    Settled,
    /// The hold ran out before a capture.
    Expired,
    /// Voided.
    Voided,
}

/// A provider adapter. Each runs the suite in `providers/contract.rs`.
pub trait Provider: Send + Sync + 'static {
    /// What it offers for this kind of operation.
    fn recovery(&self, account: ProviderAccountId, kind: Kind) -> BoxFuture<'_, Result<RecoveryClass, Fault>>;

    /// Sends a request, once. Waits as long as the provider takes: the caller has the time-out.
    fn execute(&self, request: Request) -> BoxFuture<'_, Result<Answer, Fault>>;

    /// Asks what became of a request. Only class B is asked; in class C there is never anything to find.
    fn look_up(&self, request: Request) -> BoxFuture<'_, Result<Found, Fault>>;

    /// What its books have under a name of its own; none if they have nothing. It moves nothing. Class C is not asked.
    fn booked<'a>(
        &'a self,
        account: ProviderAccountId,
        provider_ref: &'a str,
    ) -> BoxFuture<'a, Result<Option<Booked>, Fault>>;

    /// What was booked at `since` or later, charges and what followed them, oldest first, `limit` lines at most. Class C, which keeps
    /// no references, has none to tell.
    fn statement(
        &self,
        account: ProviderAccountId,
        since: Timestamp,
        limit: i64,
    ) -> BoxFuture<'_, Result<Vec<StatementLine>, Fault>>;

    /// What the provider has booked under a name of its own; none if it has booked nothing under it. It is asked before anything of
    /// ours is called missing there, because no clock and no boundary of a statement has a part in it.
    fn booked_line(
        &self,
        account: ProviderAccountId,
        provider_ref: String,
    ) -> BoxFuture<'_, Result<Option<StatementLine>, Fault>>;

    /// How a charge stands by the account's clock, and what followed it.
    fn inquire(&self, inquired: Inquired) -> BoxFuture<'_, Result<ChargeReport, Fault>>;
}

/// For how long what a provider does not process is sent again, unless an operator has set something else.
pub const RETRY_LIMIT: Duration = Duration::from_secs(24 * 3600);

/// The adapters of this process.
#[derive(Clone)]
pub struct Providers {
    mock: mock::Mock,
    card_gateway: Option<card_gateway::CardGateway>,
    retry_limit: Duration,
}

impl Providers {
    /// The mock, and the card gateway where there is one.
    pub fn new(mock: mock::Mock, card_gateway: Option<card_gateway::CardGateway>) -> Self {
        Self { mock, card_gateway, retry_limit: RETRY_LIMIT }
    }

    /// The same, but what no provider processes is sent again for so long.
    #[must_use]
    pub fn with_retry_limit(self, retry_limit: Duration) -> Self {
        Self { retry_limit, ..self }
    }

    /// For how long what nobody waits for is sent again if the provider does not process it.
    pub const fn retry_limit(&self) -> Duration {
        self.retry_limit
    }

    /// The adapter of a provider; none if this process has not been told where that is.
    pub fn get(&self, kind: ProviderKind) -> Option<&dyn Provider> {
        match kind {
            ProviderKind::Mock => Some(&self.mock),
            ProviderKind::CardGateway => self.card_gateway.as_ref().map(|gateway| gateway as &dyn Provider),
        }
    }
}

//! Card providers: a small trait, and facts about each kind of provider that need no request.
//!
//! No method takes a connection to our database, so no connection is held during a provider's request. An adapter never
//! retries a request on its own: that is decided by the charge protocol (docs/architecture.md).

extern crate self as providers;

mod amounts;
mod booked;
pub mod capabilities;
pub mod card_gateway;
#[cfg(test)]
mod contract;
pub mod credentials;
mod decline;
mod dispute;
mod facts;
mod failure;
pub mod mock;
mod operation_kind;
mod statement;
pub mod stripe;

pub use decline::{Decline, DeclineCode, DeclineType};
pub use dispute::{DisputeReason, DisputeStatus, ReportedDispute};
pub use failure::{Cause, FailureCode, ProviderError};
pub use operation_kind::{OperationKind, PROVIDER_TIMEOUT};

use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::Serialize;

pub use booked::{Booked, BookedKind, BookedState};

use foundation::crypto::Secret;
use foundation::id::ProviderAccountId;
use foundation::money::Money;
use foundation::time::Timestamp;

pub use statement::{ChargeReport, Entry, ParentCharge, Statement, StatementLine};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, sqlx::Type)]
#[sqlx(type_name = "provider_kind", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum ProviderKind {
    /// The sandbox's provider: in-process, with its own ledger.
    Mock,
    CardGateway,
    Stripe,
}

impl ProviderKind {
    pub const ALL: [Self; 3] = [Self::Mock, Self::CardGateway, Self::Stripe];

    /// The longest authorization lifetime of all providers.
    pub const LONGEST_AUTHORIZATION: Duration = Duration::from_secs(7 * 24 * 3600);

    const fn facts(self) -> &'static facts::Facts {
        match self {
            Self::Mock => &mock::FACTS,
            Self::CardGateway => &card_gateway::FACTS,
            Self::Stripe => &stripe::FACTS,
        }
    }
}

/// The displayable details of a card, never its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    /// `visa`, `mastercard`, …
    pub brand: String,
    pub last4: String,
    /// 1 to 12.
    pub exp_month: i16,
    /// Four digits.
    pub exp_year: i16,
}

impl Card {
    /// Whether the fields are within their limits. Anything else must not be displayed or stored.
    fn is_valid(&self) -> bool {
        let brand = (1..=40).contains(&self.brand.len()) && !self.brand.chars().any(char::is_control);
        let last4 = self.last4.len() == 4 && self.last4.bytes().all(|byte| byte.is_ascii_digit());
        brand && last4 && (1..=12).contains(&self.exp_month) && (1000..=9999).contains(&self.exp_year)
    }
}

#[derive(Clone, Debug)]
pub enum Source {
    /// The provider's single-use token.
    Token(Secret<String>),
    /// The provider's reference of a saved card.
    Card(String),
}

impl Source {
    /// The token, unless it is a saved card.
    pub fn token(&self) -> Option<&str> {
        match self {
            Self::Token(token) => Some(token.expose()),
            Self::Card(_) => None,
        }
    }

    /// The reference of the saved card, unless it is a token.
    pub fn card(&self) -> Option<&str> {
        match self {
            Self::Token(_) => None,
            Self::Card(card) => Some(card),
        }
    }
}

/// The action that a request has the provider execute.
#[derive(Clone, Debug)]
pub enum Action {
    /// Authorize, and also capture if `capture`.
    Charge {
        source: Source,
        money: Money,
        /// A sale, or an authorization only.
        capture: bool,
    },
    /// Capture an authorization.
    Capture {
        /// The provider's reference for the charge.
        charge: String,
        money: Money,
    },
    /// Cancel a charge that has not settled.
    Void {
        /// The provider's reference for the charge.
        charge: String,
    },
    /// Return money to the card.
    Refund {
        /// The provider's reference for the charge.
        charge: String,
        money: Money,
    },
    /// Save a card.
    StoreCard {
        /// The provider's single-use token.
        token: Secret<String>,
    },
}

/// A request. A retry is identical: the reference never changes.
#[derive(Clone, Debug)]
pub struct Request {
    pub account: ProviderAccountId,
    /// Our reference, unique at the provider account.
    pub reference: String,
    pub action: Action,
    /// The account's time, which the mock uses.
    pub now: Timestamp,
    /// Where a challenged cardholder returns to; `None` if no cardholder is present.
    pub return_url: Option<String>,
    /// The payer, for a provider that requires one.
    pub payer: Option<Payer>,
    /// The payer's IP address, if known.
    pub payer_address: Option<String>,
    /// The time, by the database's clock, until which the provider may start it. A later retry relies on that.
    pub valid_until: Timestamp,
}

/// The payer, as far as known; fills in fields that a provider requires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payer {
    pub email: String,
    pub name: String,
}

/// A response of the provider. All variants except a challenge are outcomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProviderResponse {
    /// The charge is approved.
    Charged {
        /// The provider's reference for it.
        provider_ref: String,
        /// In minor units. Less than requested is a partial authorization.
        amount: i64,
        /// The card; `None` if the provider returns no details of a saved card.
        card: Option<Card>,
    },
    /// The cardholder must authenticate first. The outcome is then looked up.
    Challenged {
        /// Where to redirect the cardholder.
        url: String,
    },
    /// A capture, void or refund was executed.
    Done {
        /// The provider's reference for it.
        provider_ref: String,
    },
    /// A card was saved.
    Stored {
        /// The provider's reference for it.
        provider_ref: String,
        card: Card,
    },
    /// The issuer declined.
    Declined {
        decline: Decline,
        /// The card, if known.
        card: Option<Card>,
    },
    /// The charge was approved for a total that differs from the requested amount, for example because of a fee. No
    /// payment can book it, so it is reversed.
    Mismatched {
        /// The provider's reference for it.
        provider_ref: String,
        /// The charged total, in minor units.
        total: i64,
    },
    /// The provider refused to process the request; no money moved.
    Refused {
        /// Why, for the API client.
        code: FailureCode,
        /// The provider's own words, for operators.
        reason: String,
    },
}

impl ProviderResponse {
    /// A refusal of the request.
    pub fn refused(reason: impl Into<String>) -> Self {
        Self::Refused { code: FailureCode::ProviderRefused, reason: reason.into() }
    }

    /// The provider recorded the request and never processed it: it had no effect, and its reference is used up.
    pub fn never_processed(reason: impl Into<String>) -> Self {
        Self::Refused { code: FailureCode::ProviderUnavailable, reason: reason.into() }
    }
}

/// How the outcome of a lost response can be recovered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryClass {
    /// A: a repeated reference returns the first response. Retry.
    Idempotent,
    /// A for so long after the first request. Afterwards, references can be looked up, but are forgotten: no retry.
    IdempotentFor(Duration),
    /// B: a reference can be looked up, and a repeated one is refused. Look up before a retry.
    Lookup,
    /// C: neither. Manual review.
    Neither,
}

impl RecoveryClass {
    /// The letter used in the documentation and in `ctl`.
    pub const fn letter(self) -> &'static str {
        match self {
            Self::Idempotent | Self::IdempotentFor(_) => "A",
            Self::Lookup => "B",
            Self::Neither => "C",
        }
    }
}

/// The result of a look-up by reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// The request arrived and has this outcome.
    Response(ProviderResponse),
    /// The request arrived and has no outcome yet: it is being processed, or the cardholder is being challenged.
    Pending,
    /// The reference is not known so far.
    Nothing,
}

/// An inquiry about a charge.
#[derive(Clone, Debug)]
pub struct ChargeInquiry {
    pub account: ProviderAccountId,
    /// The provider's reference for the charge.
    pub charge: String,
    /// Our reference.
    pub reference: String,
    /// When it was created, by the account's time.
    pub created_at: Timestamp,
    /// When it was captured, by the account's time.
    pub captured_at: Option<Timestamp>,
    /// The account's time.
    pub now: Timestamp,
}

/// The status of an approved charge at the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChargeStatus {
    /// Authorized or captured, and neither settled nor ended.
    Open {
        /// If known, the time before which the status does not change by itself.
        until: Option<Timestamp>,
    },
    /// The funds have settled.
    Settled,
    /// The authorization expired before a capture.
    Expired,
    Voided,
}

/// A provider adapter. Each passes the suite in `common/providers/src/contract.rs`.
pub trait Provider: Send + Sync + 'static {
    /// The recovery class for this kind of operation.
    fn recovery(
        &self,
        account: ProviderAccountId,
        kind: OperationKind,
    ) -> BoxFuture<'_, Result<RecoveryClass, ProviderError>>;

    /// Sends a request once. Waits as long as the provider takes: the caller applies the timeout.
    fn execute(&self, request: Request) -> BoxFuture<'_, Result<ProviderResponse, ProviderError>>;

    /// Looks up the outcome of a request. Called for class B only; class C never finds anything.
    fn look_up(&self, request: Request) -> BoxFuture<'_, Result<Found, ProviderError>>;

    /// Looks up a transaction by the provider's reference. Not called for class C.
    fn booked<'a>(
        &'a self,
        account: ProviderAccountId,
        provider_ref: &'a str,
    ) -> BoxFuture<'a, Result<Option<Booked>, ProviderError>>;

    /// Returns about `limit` transactions booked at `since` or later, charges, their follow-ups and disputed money, oldest
    /// first. Class C keeps no references and returns none.
    fn statement(
        &self,
        account: ProviderAccountId,
        since: Timestamp,
        limit: i64,
    ) -> BoxFuture<'_, Result<Statement, ProviderError>>;

    /// Looks up a single statement line by the provider's reference. Called before a transaction of ours is reported as
    /// missing, because it does not depend on clocks or on the boundaries of a statement.
    fn booked_line(
        &self,
        account: ProviderAccountId,
        provider_ref: String,
    ) -> BoxFuture<'_, Result<Option<StatementLine>, ProviderError>>;

    /// Returns the status of a charge by the account's time, its follow-ups and its disputes.
    fn inquire(&self, inquiry: ChargeInquiry) -> BoxFuture<'_, Result<ChargeReport, ProviderError>>;
}

/// How long an unprocessed request is retried, unless an operator configures another limit.
pub const RETRY_LIMIT: Duration = Duration::from_secs(24 * 3600);

/// The adapters of this process.
#[derive(Clone)]
pub struct Providers {
    mock: mock::Mock,
    card_gateway: Option<card_gateway::CardGateway>,
    stripe: Option<stripe::Stripe>,
    retry_limit: Duration,
}

impl Providers {
    /// The mock, and those that are configured.
    pub fn new(
        mock: mock::Mock,
        card_gateway: Option<card_gateway::CardGateway>,
        stripe: Option<stripe::Stripe>,
    ) -> Self {
        Self { mock, card_gateway, stripe, retry_limit: RETRY_LIMIT }
    }

    /// Sets how long unprocessed requests are retried.
    #[must_use]
    pub fn with_retry_limit(self, retry_limit: Duration) -> Self {
        Self { retry_limit, ..self }
    }

    /// How long a background operation is retried if the provider does not process it.
    pub const fn retry_limit(&self) -> Duration {
        self.retry_limit
    }

    /// Returns the adapter of a provider; `None` if it is not configured in this process.
    pub fn get(&self, kind: ProviderKind) -> Option<&dyn Provider> {
        match kind {
            ProviderKind::Mock => Some(&self.mock),
            ProviderKind::CardGateway => self.card_gateway.as_ref().map(|gateway| gateway as &dyn Provider),
            ProviderKind::Stripe => self.stripe.as_ref().map(|stripe| stripe as &dyn Provider),
        }
    }
}

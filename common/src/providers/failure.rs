//! What went wrong at a provider: that it said no, that it processed nothing, or that nothing is known.

use serde::Serialize;

/// Why a payment, capture, void or refund failed: `failureCode` of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, sqlx::Type, utoipa::ToSchema)]
#[sqlx(type_name = "text", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum FailureCode {
    /// The provider could not be reached, or processed nothing.
    ProviderUnavailable,
    /// The provider would not do it.
    ProviderRefused,
    /// The account is not set up for it at the provider.
    Configuration,
    /// The provider took another amount than was asked; the charge is reversed.
    AmountMismatch,
}

impl FailureCode {
    /// Every one.
    pub const ALL: [Self; 4] =
        [Self::ProviderUnavailable, Self::ProviderRefused, Self::Configuration, Self::AmountMismatch];

    /// As the API names it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ProviderUnavailable => "provider_unavailable",
            Self::ProviderRefused => "provider_refused",
            Self::Configuration => "configuration",
            Self::AmountMismatch => "amount_mismatch",
        }
    }

    /// `failureMessage`: for people, without the provider's words, which may name machines of ours.
    pub const fn message(self) -> &'static str {
        match self {
            Self::ProviderUnavailable => "The provider could not be reached. Nothing was done; try again later.",
            Self::ProviderRefused => "The provider refused the request. Nothing was done.",
            Self::Configuration => {
                "The account is not set up for this at the provider. Nothing was done; contact support."
            }
            Self::AmountMismatch => "The provider took another amount than was asked. The charge is being reversed.",
        }
    }
}

/// Why a request was not processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The provider was not reached, or turned the request away unread: others at this account will hardly fare better.
    Unavailable,
    /// The provider does not accept the account's credentials: nothing of this account is processed.
    Credentials,
    /// The account is not set up for this request (its currency, say), which says nothing of others.
    Setup,
}

impl Cause {
    /// What the caller is told.
    pub const fn code(self) -> FailureCode {
        match self {
            Self::Unavailable => FailureCode::ProviderUnavailable,
            Self::Credentials | Self::Setup => FailureCode::Configuration,
        }
    }

    /// Whether it says something of every request of the provider account.
    pub const fn is_of_account(self) -> bool {
        match self {
            Self::Unavailable | Self::Credentials => true,
            Self::Setup => false,
        }
    }
}

/// No answer.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// This request certainly did nothing: it never left, or was turned away unread. It says nothing of an earlier one.
    #[error("not processed: {reason}")]
    NotProcessed {
        /// Why, for the protocol.
        cause: Cause,
        /// Why, for the person on call.
        reason: String,
    },
    /// The request may have arrived: whether anything moved is unknown.
    #[error("outcome unknown: {0}")]
    Unknown(String),
}

impl Fault {
    /// The provider was not reached, or turned the request away unread.
    pub fn unavailable(reason: impl Into<String>) -> Self {
        Self::NotProcessed { cause: Cause::Unavailable, reason: reason.into() }
    }

    /// The provider does not accept the account's credentials, or there are none.
    pub fn credentials(reason: impl Into<String>) -> Self {
        Self::NotProcessed { cause: Cause::Credentials, reason: reason.into() }
    }

    /// The account is not set up for this request.
    pub fn setup(reason: impl Into<String>) -> Self {
        Self::NotProcessed { cause: Cause::Setup, reason: reason.into() }
    }
}

//! Failures of a provider request: refused, not processed, or of unknown outcome.

use serde::Serialize;

/// Why a payment or refund failed, or the last capture or void of a payment:
/// - `provider_unavailable`: the provider could not be reached, or processed nothing. Try later, as a new request.
/// - `provider_refused`: the provider refused the request.
/// - `configuration`: the account is not set up for it at the provider. Contact support.
/// - `amount_mismatch`: the provider charged another amount than requested; the charge is reversed.
/// - `withdrawn`: the merchant detached its card, or stopped its collection, before the provider processed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, sqlx::Type, utoipa::ToSchema)]
#[sqlx(type_name = "text", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum FailureCode {
    ProviderUnavailable,
    ProviderRefused,
    Configuration,
    AmountMismatch,
    Withdrawn,
}

impl FailureCode {
    pub const ALL: [Self; 5] =
        [Self::ProviderUnavailable, Self::ProviderRefused, Self::Configuration, Self::AmountMismatch, Self::Withdrawn];

    /// Name in the API.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ProviderUnavailable => "provider_unavailable",
            Self::ProviderRefused => "provider_refused",
            Self::Configuration => "configuration",
            Self::AmountMismatch => "amount_mismatch",
            Self::Withdrawn => "withdrawn",
        }
    }

    /// `failureMessage`. Never contains the provider's own words, which may name our hosts.
    pub const fn message(self) -> &'static str {
        match self {
            Self::ProviderUnavailable => "The provider could not be reached. Nothing was done; try again later.",
            Self::ProviderRefused => "The provider refused the request. Nothing was done.",
            Self::Configuration => {
                "The account is not set up for this at the provider. Nothing was done; contact support."
            }
            Self::AmountMismatch => {
                "The provider charged a different amount than requested. The charge is being reversed."
            }
            Self::Withdrawn => {
                "Its card was detached or its collection stopped before the provider processed it. Nothing was charged."
            }
        }
    }
}

/// Why a request was not processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The provider was not reached, or rejected the request unread. Other requests of this account probably fail too.
    Unavailable,
    /// The provider does not accept the account's credentials, so it processes no request of the account.
    Credentials,
    /// The account is not set up for this request, for example for its currency. Other requests are not affected.
    Setup,
}

impl Cause {
    /// The code for the API client.
    pub const fn code(self) -> FailureCode {
        match self {
            Self::Unavailable => FailureCode::ProviderUnavailable,
            Self::Credentials | Self::Setup => FailureCode::Configuration,
        }
    }

    /// Whether it affects every request of the provider account.
    pub const fn affects_account(self) -> bool {
        match self {
            Self::Unavailable | Self::Credentials => true,
            Self::Setup => false,
        }
    }
}

/// The request has no usable response.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    /// This request certainly had no effect: it was not sent, or was rejected unread. An earlier request may have
    /// had one.
    #[error("not processed: {reason}")]
    NotProcessed {
        /// Why, for the protocol.
        cause: Cause,
        /// Why, for operators.
        reason: String,
    },
    /// The request may have arrived: whether money moved is unknown.
    #[error("outcome unknown: {0}")]
    Unknown(String),
}

impl ProviderError {
    /// The provider was not reached, or rejected the request unread.
    pub fn unavailable(reason: impl Into<String>) -> Self {
        Self::NotProcessed { cause: Cause::Unavailable, reason: reason.into() }
    }

    /// The provider does not accept the account's credentials, or there are none.
    pub fn credentials(reason: impl Into<String>) -> Self {
        Self::NotProcessed { cause: Cause::Credentials, reason: reason.into() }
    }

    pub fn setup(reason: impl Into<String>) -> Self {
        Self::NotProcessed { cause: Cause::Setup, reason: reason.into() }
    }
}

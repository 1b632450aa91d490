//! Sends the request of an operation, and what is known after it.

use std::time::Duration;

use crate::charge::counters;
use domain::charges::{Claimed, Reference, Retry, WhenNotProcessed};
use domain::operations::PROVIDER_TIMEOUT;
use foundation::rule_enabled;
use providers::{Cause, FailureCode, Provider, ProviderError, ProviderResponse};

/// Delay before the provider is queried again for an outcome that it has not reported.
pub(super) const RETRY_DELAY: Duration = Duration::from_secs(3);
/// Reason reported when the circuit breaker holds an operation back.
pub(super) const BREAKER_OPEN: &str = "the circuit breaker is open: the provider recently processed nothing";

pub(super) enum SendResult {
    Known(ProviderResponse),
    /// It had no effect: the provider said so, or (if `cause` is `None`) nothing was sent, or the provider recorded it
    /// and never processed it, which uses up its reference.
    NotProcessed {
        cause: Option<Cause>,
        reason: String,
        reference: Reference,
    },
    /// The provider has it, and it has not ended.
    Pending,
    Unknown {
        reason: String,
        retry: Retry,
        found_nothing: bool,
    },
}

impl SendResult {
    pub(super) fn retry_later(reason: impl Into<String>) -> Self {
        Self::Unknown { reason: reason.into(), retry: Retry::After(RETRY_DELAY), found_nothing: false }
    }

    /// Nothing has taken effect, and nothing will be sent.
    pub(super) fn withdrawn() -> Self {
        let reason = "its collection was stopped, or its card detached".to_owned();
        Self::Known(ProviderResponse::Refused { code: FailureCode::Withdrawn, reason })
    }

    /// Turns "not processed" into an outcome if the charge was stopped, if a client waits for it, or if the retry limit is
    /// reached.
    pub(super) fn end_if_final(self, claimed: &Claimed, limit: Duration) -> Self {
        let (cause, reason, reference) = match self {
            Self::NotProcessed { cause, reason, reference } => (cause, reason, reference),
            Self::Known(ProviderResponse::Refused { code: FailureCode::ProviderUnavailable, reason }) => {
                (None, reason, Reference::UsedUp)
            }
            Self::Known(_) | Self::Pending | Self::Unknown { .. } => return self,
        };
        let code = cause.map_or(FailureCode::ProviderUnavailable, Cause::code);
        match claimed.when_not_processed() {
            _ if claimed.is_stopped => Self::withdrawn(),
            WhenNotProcessed::RetryForever => Self::NotProcessed { cause, reason, reference },
            WhenNotProcessed::RetryUntilLimit if claimed.age < limit => Self::NotProcessed { cause, reason, reference },
            WhenNotProcessed::RetryUntilLimit => {
                tracing::error!(operation = %claimed.id, %reason, ?limit, "not processed within the retry limit; failed");
                counters::count("payments_provider_retries_exhausted_total", claimed);
                Self::Known(ProviderResponse::Refused { code, reason })
            }
            WhenNotProcessed::Fail => Self::Known(ProviderResponse::Refused { code, reason }),
        }
    }

    /// Whether the provider has processed this request, so that it can be expected to process others of this account.
    pub(super) fn is_processed(&self) -> bool {
        match self {
            Self::Known(ProviderResponse::Refused {
                code: FailureCode::ProviderUnavailable | FailureCode::Withdrawn,
                ..
            }) => false,
            Self::Known(_) | Self::Pending | Self::NotProcessed { cause: Some(Cause::Setup), .. } => true,
            Self::NotProcessed { .. } | Self::Unknown { .. } => false,
        }
    }
}

/// Sends the request. The timeout is here and not around the whole handler, so that cancellation never interrupts a
/// request. `first` means that no request was sent before: only then does "not processed" mean that the operation had
/// no effect.
pub(super) async fn send(provider: &dyn Provider, claimed: &Claimed, first: bool) -> SendResult {
    match tokio::time::timeout(PROVIDER_TIMEOUT, provider.execute(claimed.request.clone())).await {
        Ok(Ok(response)) => SendResult::Known(response),
        Ok(Err(_)) | Err(_) if !rule_enabled!(Unknown) => SendResult::Known(ProviderResponse::refused("no response")),
        Ok(Err(ProviderError::NotProcessed { cause, reason })) if first => {
            SendResult::NotProcessed { cause: Some(cause), reason, reference: Reference::Unused }
        }
        Ok(Err(error)) => SendResult::retry_later(error.to_string()),
        Err(_) => SendResult::retry_later(format!("no response within {PROVIDER_TIMEOUT:?}")),
    }
}

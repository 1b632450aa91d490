//! Determines the outcome of an earlier request, or sends it again if that is safe.

use std::time::Duration;

use tokio::time::timeout;

use super::send::{BREAKER_OPEN, RETRY_DELAY, SendResult, send};
use domain::charges::{self, Claimed, Retry};
use domain::operations::PROVIDER_TIMEOUT;
use foundation::db::Db;
use foundation::error::Result;
use foundation::{failpoint, rule_enabled};
use providers::{Found, Provider, ProviderResponse, RecoveryClass};

/// Delay before a look-up is repeated at a provider whose search finds new objects after about a minute.
const SEARCH_DELAY: Duration = Duration::from_secs(2 * 60);
/// Number of consecutive look-ups that must find nothing before a reference counts as unknown to the provider. Only
/// those made when no earlier request could still arrive count.
const REQUIRED_LOOK_UPS: i32 = 2;

/// Continues an operation of which a request may have been sent. The provider's recovery class decides what is safe.
pub(super) async fn recover(db: &Db, provider: &dyn Provider, claimed: &mut Claimed) -> Result<SendResult> {
    let class = match provider.recovery(claimed.provider_account_id, claimed.kind).await {
        Ok(class) => class,
        Err(error) => return Ok(SendResult::retry_later(error.to_string())),
    };
    match class {
        RecoveryClass::IdempotentFor(kept) if claimed.sent_for >= kept && rule_enabled!(Forgotten) => {
            Ok(look_up_forgotten(provider, claimed).await)
        }
        RecoveryClass::Idempotent | RecoveryClass::IdempotentFor(_) if !charges::admit(db, claimed).await => {
            Ok(SendResult::retry_later(BREAKER_OPEN))
        }
        RecoveryClass::Idempotent | RecoveryClass::IdempotentFor(_) => send_again(db, provider, claimed).await,
        RecoveryClass::Lookup => look_up(db, provider, claimed).await,
        RecoveryClass::Neither => Ok(SendResult::Unknown {
            reason: "the response was lost".into(),
            retry: Retry::ManualReview,
            found_nothing: false,
        }),
    }
}

/// Sends the request again. A failure of this request does not settle an earlier one, which may still arrive.
async fn send_again(db: &Db, provider: &dyn Provider, claimed: &mut Claimed) -> Result<SendResult> {
    charges::sending_again(db, claimed).await?;
    failpoint!("recover.resending");
    Ok(send(provider, claimed, false).await)
}

/// Queries the provider. `None` if it knows nothing of the reference.
async fn look_up_once(provider: &dyn Provider, claimed: &Claimed) -> Option<SendResult> {
    match timeout(PROVIDER_TIMEOUT, provider.look_up(claimed.request.clone())).await {
        Ok(Ok(Found::Response(response))) => Some(SendResult::Known(response)),
        Ok(Ok(Found::Pending)) => Some(SendResult::Pending),
        Ok(Ok(Found::Nothing)) => None,
        Ok(Err(error)) => Some(SendResult::retry_later(error.to_string())),
        Err(_) => Some(SendResult::retry_later(format!("no look-up response within {PROVIDER_TIMEOUT:?}"))),
    }
}

async fn look_up(db: &Db, provider: &dyn Provider, claimed: &mut Claimed) -> Result<SendResult> {
    failpoint!("recover.looking_up");
    let found = look_up_once(provider, claimed).await;
    failpoint!("recover.looked_up");
    if let Some(result) = found {
        return Ok(result);
    }
    if !rule_enabled!(NotFound) {
        return Ok(SendResult::Known(ProviderResponse::refused("not found")));
    }
    if !claimed.last_request_expired {
        return Ok(SendResult::retry_later("not found, but the request may still arrive"));
    }
    if claimed.not_found + 1 < REQUIRED_LOOK_UPS {
        return Ok(SendResult::Unknown {
            reason: "not found; one more look-up is needed to confirm it".into(),
            retry: Retry::After(RETRY_DELAY),
            found_nothing: true,
        });
    }
    if claimed.is_stopped {
        return Ok(SendResult::withdrawn());
    }
    if !charges::admit(db, claimed).await {
        return Ok(SendResult::retry_later(BREAKER_OPEN));
    }
    let result = send_again(db, provider, claimed).await?;
    failpoint!("recover.responded_again");
    Ok(confirm_refusal(provider, claimed, result).await)
}

/// Looks up an operation whose reference the provider may have forgotten, so that it must not be sent again.
async fn look_up_forgotten(provider: &dyn Provider, claimed: &Claimed) -> SendResult {
    let is_confirmed = claimed.not_found + 1 >= REQUIRED_LOOK_UPS;
    look_up_once(provider, claimed).await.unwrap_or_else(|| SendResult::Unknown {
        reason: "not found, and the provider may have forgotten the reference".into(),
        retry: if is_confirmed { Retry::ManualReview } else { Retry::After(SEARCH_DELAY) },
        found_nothing: true,
    })
}

/// Confirms a refusal of a request that was sent again: the earlier request may have caused it ("already captured"), so
/// the provider is queried once more before the refusal is accepted.
async fn confirm_refusal(provider: &dyn Provider, claimed: &Claimed, result: SendResult) -> SendResult {
    if !matches!(result, SendResult::Known(ProviderResponse::Refused { .. })) {
        return result;
    }
    look_up_once(provider, claimed).await.unwrap_or(result)
}

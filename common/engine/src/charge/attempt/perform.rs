//! Executes an operation: claim, send or recover, record. Workers call it with an id from the queue.

use std::time::Duration;

use tokio::time::error::Elapsed;
use uuid::Uuid;

use crate::charge::attempt::executor::Executor;
use crate::charge::counters::{self, RequestOutcome};
use crate::mutants;
use domain::charges::{self, Claimed, Reference, Retry, WhenNotProcessed};
use domain::operations::{OperationKind, PROVIDER_TIMEOUT, Subject};
use domain::payments;
use foundation::db::{self, Db};
use foundation::error::{Error, Result};
use foundation::id::OperationId;
use foundation::{failpoint, rule_enabled};
use providers::{Cause, FailureCode, Found, Provider, ProviderError, ProviderResponse, Providers, RecoveryClass};

/// How often a known outcome is written again after a failure, half a second apart: about as long as a restart of
/// Postgres takes. After that the lease has expired, and recovery finds the outcome again if the provider supports it.
const RECORD_ATTEMPTS: u32 = 120;
const RECORD_PAUSE: Duration = Duration::from_millis(500);
/// Delay before the provider is queried again for an outcome that it has not reported.
const RETRY_DELAY: Duration = Duration::from_secs(3);
/// Delay before a look-up is repeated at a provider whose search finds new objects after about a minute.
const SEARCH_DELAY: Duration = Duration::from_secs(2 * 60);
/// Number of consecutive look-ups that must find nothing before a reference counts as unknown to the provider. Only
/// those made when no earlier request could still arrive count.
const REQUIRED_LOOK_UPS: i32 = 2;

/// An operation that has ended, and the waiters to notify.
#[derive(Debug)]
pub struct Performed {
    /// Reply channel of the waiting process.
    pub reply_to: Option<String>,
    /// The id it waits for.
    pub reply_id: Uuid,
}

/// Executes an operation as far as currently possible. `None` if it could not be claimed, or its outcome is still
/// unknown.
///
/// # Errors
/// Database errors. Recovery then determines the outcome of what was already sent.
pub async fn perform(executor: &Executor, id: OperationId) -> Result<Option<Performed>> {
    let Executor { db, providers, claims, .. } = executor;
    let claimed = match rule_enabled!(Claim) {
        true => claims.claim(id).await?,
        false => mutants::claim_without_lease(executor, id).await?,
    };
    let Some(mut claimed) = claimed else { return Ok(None) };
    mutants::forget_first_attempt(&mut claimed);
    add_payer(db, &mut claimed).await?;
    failpoint!("perform.claimed");
    let payment = executor.payment(&claimed);
    let (result, payment) = tokio::join!(call_provider(db, providers, &mut claimed), payment);
    let result = result?;
    update_breaker(db, &claimed, &result).await;
    let result = result.end_if_final(&claimed, providers.retry_limit());
    if matches!(result, SendResult::Known(ProviderResponse::Refused { .. })) {
        failpoint!("perform.refused");
    }
    count(&claimed, &result);
    let mut attempts = 0;
    match result {
        SendResult::NotProcessed { cause, reason, reference } => {
            tracing::warn!(operation = %id, %reason, "not processed; it will be sent again");
            failpoint!("perform.not_processed");
            while let Err(error) = charges::requeue(db, &claimed, cause, reference).await {
                wait_before_retry(&claimed, error, &mut attempts).await?;
            }
            failpoint!("perform.requeued");
            Ok(None)
        }
        SendResult::Known(response) => {
            failpoint!("perform.responded");
            let ended = loop {
                match executor.record(&claimed, payment.as_ref(), &response).await {
                    Ok(ended) => break ended,
                    Err(error) => wait_before_retry(&claimed, error, &mut attempts).await?,
                }
            };
            failpoint!("perform.recorded");
            mutants::append_event_later(executor, &claimed).await?;
            Ok(Some(Performed { reply_id: ended.reply_id(), reply_to: claimed.origin.reply_to }))
        }
        SendResult::Pending => {
            tracing::info!(operation = %id, "the provider has the request and has not finished it; it will be queried again");
            leave_unknown(db, &claimed, Retry::After(RETRY_DELAY), false).await?;
            Ok(None)
        }
        SendResult::Unknown { reason, retry, found_nothing } => {
            match retry {
                Retry::After(_) => {
                    tracing::warn!(operation = %id, %reason, "outcome unknown; the provider will be queried again")
                }
                Retry::ManualReview => tracing::error!(
                    operation = %id, %reason,
                    "outcome unknown, and this provider supports neither look-ups nor idempotent retries: an operator must determine the outcome"
                ),
            }
            leave_unknown(db, &claimed, retry, found_nothing).await?;
            Ok(None)
        }
    }
}

/// Sends the request, or determines the outcome of an earlier one.
async fn call_provider(db: &Db, providers: &Providers, claimed: &mut Claimed) -> Result<SendResult> {
    if claimed.is_stopped && !claimed.sent_before {
        return Ok(SendResult::withdrawn());
    }
    Ok(match providers.get(claimed.provider) {
        Some(provider) if claimed.sent_before => recover(db, provider, claimed).await?,
        Some(_) if !charges::admit(db, claimed).await => {
            SendResult::NotProcessed { cause: None, reason: BREAKER_OPEN.to_owned(), reference: Reference::Unused }
        }
        Some(provider) => send(provider, claimed, true).await,
        // A build that has the adapter may already have sent it, and will claim it again.
        None => SendResult::retry_later("this build has no adapter for the provider"),
    })
}

/// Updates the circuit breaker: a request that was not processed because of the provider account counts towards it, a
/// processed one closes it. An error is only logged: the next operation repeats the update, and this one's outcome must
/// be recorded regardless.
async fn update_breaker(db: &Db, claimed: &Claimed, result: &SendResult) {
    let written = if let SendResult::NotProcessed { cause: Some(cause), reason, .. } = result
        && cause.affects_account()
    {
        charges::count_not_processed(db, claimed, reason).await
    } else if claimed.has_breaker && result.is_processed() {
        charges::close_breaker(db, claimed.provider_account_id).await
    } else {
        return;
    };
    if let Err(error) = written {
        tracing::warn!(operation = %claimed.id, %error, "the circuit breaker was not updated");
    }
}

/// Adds the payer to a charge at a provider that requires one.
async fn add_payer(db: &Db, claimed: &mut Claimed) -> Result<()> {
    if let Some(id) = claimed.charged_payment().filter(|_| claimed.provider.requires_payer()) {
        claimed.request.payer = Some(charges::payer(db, id).await?);
    }
    Ok(())
}

/// Releases the operation with its outcome unknown. A refund with unknown outcome is marked on its payment, so that no
/// other change begins; a capture or void has been marked since its intent.
async fn leave_unknown(db: &Db, claimed: &Claimed, retry: Retry, found_nothing: bool) -> Result<()> {
    failpoint!("perform.outcome_unknown");
    let mut tx = db.begin().await?;
    if let (OperationKind::Refund, Subject::Payment(id)) = (claimed.kind, claimed.subject) {
        let mut payment = payments::lock(&mut tx, claimed.account_id, id).await?;
        let open = !charges::lock(&mut tx, claimed.id).await?.state.is_final();
        if open && payment.pending_operation.is_none() {
            payment.pending_operation = Some(OperationKind::Refund);
            payments::save(&mut tx, &mut payment).await?;
        }
    }
    charges::leave_unknown(&mut tx, claimed, retry, found_nothing).await?;
    failpoint!("perform.left_unknown");
    tx.commit().await?;
    Ok(())
}

/// Reason reported when the circuit breaker holds an operation back.
const BREAKER_OPEN: &str = "the circuit breaker is open: the provider recently processed nothing";

enum SendResult {
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
    fn retry_later(reason: impl Into<String>) -> Self {
        Self::Unknown { reason: reason.into(), retry: Retry::After(RETRY_DELAY), found_nothing: false }
    }

    /// Nothing has taken effect, and nothing will be sent.
    fn withdrawn() -> Self {
        let reason = "its collection was stopped, or its card detached".to_owned();
        Self::Known(ProviderResponse::Refused { code: FailureCode::Withdrawn, reason })
    }

    /// Turns "not processed" into an outcome if the charge was stopped, if a client waits for it, or if the retry limit is
    /// reached.
    fn end_if_final(self, claimed: &Claimed, limit: Duration) -> Self {
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
                tracing::error!(operation = %claimed.id, %reason, ?limit, "not processed within the retry limit; given up");
                counters::count("payments_not_processed_given_up_total", claimed);
                Self::Known(ProviderResponse::Refused { code, reason })
            }
            WhenNotProcessed::Fail => Self::Known(ProviderResponse::Refused { code, reason }),
        }
    }

    /// Whether the provider has processed this request, so that it can be expected to process others of this account.
    fn is_processed(&self) -> bool {
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
async fn send(provider: &dyn Provider, claimed: &Claimed, first: bool) -> SendResult {
    let response = tokio::time::timeout(PROVIDER_TIMEOUT, provider.execute(claimed.request.clone())).await;
    match mutants::refuse_if_lost(response) {
        Ok(Ok(response)) => SendResult::Known(response),
        Ok(Err(ProviderError::NotProcessed { cause, reason })) if first => {
            SendResult::NotProcessed { cause: Some(cause), reason, reference: Reference::Unused }
        }
        Ok(Err(error)) => SendResult::retry_later(error.to_string()),
        Err(_) => SendResult::retry_later(format!("no response within {PROVIDER_TIMEOUT:?}")),
    }
}

/// Continues an operation of which a request may have been sent. The provider's recovery class decides what is safe.
async fn recover(db: &Db, provider: &dyn Provider, claimed: &mut Claimed) -> Result<SendResult> {
    let class = match provider.recovery(claimed.provider_account_id, claimed.kind).await {
        Ok(class) => class,
        Err(error) => return Ok(SendResult::retry_later(error.to_string())),
    };
    match class {
        RecoveryClass::IdempotentFor(kept) if claimed.sent_for >= kept && rule_enabled!(Forgotten) => {
            look_up_forgotten(provider, claimed).await
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
    failpoint!("perform.resending");
    Ok(send(provider, claimed, false).await)
}

async fn look_up_once(provider: &dyn Provider, claimed: &Claimed) -> Result<Result<Found, ProviderError>, Elapsed> {
    tokio::time::timeout(PROVIDER_TIMEOUT, provider.look_up(claimed.request.clone())).await
}

async fn look_up(db: &Db, provider: &dyn Provider, claimed: &mut Claimed) -> Result<SendResult> {
    failpoint!("perform.looking_up");
    let found = look_up_once(provider, claimed).await;
    failpoint!("perform.looked_up");
    match mutants::refuse_if_not_found(found) {
        Ok(Ok(Found::Response(response))) => Ok(SendResult::Known(response)),
        Ok(Ok(Found::Pending)) => Ok(SendResult::Pending),
        Ok(Ok(Found::Nothing)) if !claimed.last_request_expired => {
            Ok(SendResult::retry_later("not found, but the request may still arrive"))
        }
        Ok(Ok(Found::Nothing)) if claimed.not_found + 1 < REQUIRED_LOOK_UPS => Ok(SendResult::Unknown {
            reason: "not found; one more look-up is needed to confirm it".into(),
            retry: Retry::After(RETRY_DELAY),
            found_nothing: true,
        }),
        Ok(Ok(Found::Nothing)) if claimed.is_stopped => Ok(SendResult::withdrawn()),
        Ok(Ok(Found::Nothing)) if !charges::admit(db, claimed).await => Ok(SendResult::retry_later(BREAKER_OPEN)),
        Ok(Ok(Found::Nothing)) => {
            let result = send_again(db, provider, claimed).await?;
            failpoint!("perform.responded_again");
            Ok(confirm_refusal(provider, claimed, result).await)
        }
        Ok(Err(error)) => Ok(SendResult::retry_later(error.to_string())),
        Err(_) => Ok(SendResult::retry_later(format!("no look-up response within {PROVIDER_TIMEOUT:?}"))),
    }
}

/// Looks up an operation whose reference the provider may have forgotten, so that it must not be sent again.
async fn look_up_forgotten(provider: &dyn Provider, claimed: &Claimed) -> Result<SendResult> {
    match look_up_once(provider, claimed).await {
        Ok(Ok(Found::Response(response))) => Ok(SendResult::Known(response)),
        Ok(Ok(Found::Pending)) => Ok(SendResult::Pending),
        Ok(Ok(Found::Nothing)) => {
            let confirmed = claimed.not_found + 1 >= REQUIRED_LOOK_UPS;
            Ok(SendResult::Unknown {
                reason: "not found, and the provider may have forgotten the reference".into(),
                retry: if confirmed { Retry::ManualReview } else { Retry::After(SEARCH_DELAY) },
                found_nothing: true,
            })
        }
        Ok(Err(error)) => Ok(SendResult::retry_later(error.to_string())),
        Err(_) => Ok(SendResult::retry_later(format!("no look-up response within {PROVIDER_TIMEOUT:?}"))),
    }
}

/// Confirms a refusal of a request that was sent again: the earlier request may have caused it ("already captured"), so
/// the provider is queried once more before the refusal is accepted.
async fn confirm_refusal(provider: &dyn Provider, claimed: &Claimed, result: SendResult) -> SendResult {
    if !matches!(result, SendResult::Known(ProviderResponse::Refused { .. })) {
        return result;
    }
    match look_up_once(provider, claimed).await {
        Ok(Ok(Found::Nothing)) => result,
        Ok(Ok(Found::Response(response))) => SendResult::Known(response),
        Ok(Ok(Found::Pending)) => SendResult::Pending,
        Ok(Err(error)) => SendResult::retry_later(error.to_string()),
        Err(_) => SendResult::retry_later(format!("no look-up response within {PROVIDER_TIMEOUT:?}")),
    }
}

/// Waits before a known outcome is written again, so that it survives a restart of Postgres: with recovery class C it
/// could not be found again. Returns the error if it must not be retried.
async fn wait_before_retry(claimed: &Claimed, error: Error, attempts: &mut u32) -> Result<()> {
    let is_transient = |error: &_| db::lost_connection(error) || db::is_retryable(error);
    if !matches!(&error, Error::Database(error) if is_transient(error)) || *attempts >= RECORD_ATTEMPTS {
        return Err(error);
    }
    *attempts += 1;
    tracing::warn!(operation = %claimed.id, %error, attempts, "the outcome could not be recorded; trying again");
    tokio::time::sleep(RECORD_PAUSE).await;
    Ok(())
}

fn count(claimed: &Claimed, result: &SendResult) {
    let outcome = match result {
        SendResult::Known(
            ProviderResponse::Charged { .. } | ProviderResponse::Done { .. } | ProviderResponse::Stored { .. },
        ) => RequestOutcome::Succeeded,
        SendResult::Known(ProviderResponse::Challenged { .. }) => RequestOutcome::Challenged,
        SendResult::Known(ProviderResponse::Declined { .. }) => RequestOutcome::Declined,
        // The provider has no part in it.
        SendResult::Known(ProviderResponse::Refused { code: FailureCode::Withdrawn, .. }) => return,
        SendResult::Known(ProviderResponse::Refused { .. } | ProviderResponse::Mismatched { .. }) => {
            RequestOutcome::Failed
        }
        SendResult::NotProcessed { .. } => RequestOutcome::NotProcessed,
        SendResult::Pending => RequestOutcome::Pending,
        SendResult::Unknown { .. } => RequestOutcome::Unknown,
    };
    let refused = match result {
        SendResult::Known(ProviderResponse::Refused { code, .. }) => Some(*code),
        SendResult::NotProcessed { cause: Some(cause), .. } => Some(cause.code()),
        SendResult::NotProcessed { cause: None, .. }
        | SendResult::Known(_)
        | SendResult::Pending
        | SendResult::Unknown { .. } => None,
    };
    if refused == Some(FailureCode::Configuration) {
        counters::count("payments_configuration_errors_total", claimed);
    }
    counters::count_request(claimed, outcome);
    if let SendResult::Known(response) = result {
        counters::count_money(claimed, response);
    }
}

//! Executes an operation: claim, send or recover, record. Workers call it with an id from the queue.

use std::time::Duration;

use uuid::Uuid;

use super::executor::Executor;
use super::recover::recover;
use super::send::{BREAKER_OPEN, RETRY_DELAY, SendResult, send};
use crate::charge::counters::{self, RequestOutcome};
use crate::mutants;
use domain::charges::{self, Claimed, Reference, Retry};
use domain::operations::{OperationKind, Subject};
use domain::payments;
use foundation::db::{self, Db};
use foundation::error::{Error, Result};
use foundation::id::OperationId;
use foundation::{failpoint, rule_enabled};
use providers::{Cause, FailureCode, ProviderResponse, Providers};

/// How often a known outcome is written again after a failure, half a second apart: about as long as a restart of
/// Postgres takes. After that the lease has expired, and recovery finds the outcome again if the provider supports it.
const RECORD_ATTEMPTS: u32 = 120;
const RECORD_PAUSE: Duration = Duration::from_millis(500);

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
    let Executor { db, providers, batches, .. } = executor;
    let claimed = match rule_enabled!(Claim) {
        true => batches.claim(id).await?,
        false => mutants::claim_without_lease(executor, id).await?,
    };
    let Some(mut claimed) = claimed else { return Ok(None) };
    claimed.sent_before &= rule_enabled!(Gate);
    if claimed.sent_before && !rule_enabled!(Reference) {
        claimed.request.reference = format!("{}-{}", claimed.request.reference, claimed.fence);
    }
    add_payer(db, &mut claimed).await?;
    failpoint!("perform.claimed");
    let result = call_provider(db, providers, &mut claimed).await?;
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
            while let Err(error) = requeue(executor, &claimed, cause, reference).await {
                wait_before_retry(&claimed, error, &mut attempts).await?;
            }
            failpoint!("perform.requeued");
            Ok(None)
        }
        SendResult::Known(response) => {
            failpoint!("perform.responded");
            let ended = loop {
                match executor.record(&claimed, &response).await {
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
            leave_unknown(executor, &claimed, Retry::After(RETRY_DELAY), false).await?;
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
            leave_unknown(executor, &claimed, retry, found_nothing).await?;
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

async fn requeue(executor: &Executor, claimed: &Claimed, cause: Option<Cause>, reference: Reference) -> Result<()> {
    let _permit = executor.permit(claimed).await?;
    charges::requeue(&executor.db, claimed, cause, reference).await
}

/// Releases the operation with its outcome unknown. A refund with unknown outcome is marked on its payment, so that no
/// other change begins; a capture or void has been marked since its intent.
async fn leave_unknown(executor: &Executor, claimed: &Claimed, retry: Retry, found_nothing: bool) -> Result<()> {
    failpoint!("perform.outcome_unknown");
    let mut attempts = 0;
    // The transaction itself is not repeated: if its COMMIT had no response, a look-up would be counted twice.
    let _permit = loop {
        match executor.permit(claimed).await {
            Ok(permit) => break permit,
            Err(error) => wait_before_retry(claimed, error, &mut attempts).await?,
        }
    };
    let mut tx = executor.db.begin().await?;
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

/// Waits before an outcome is written again, so that a known one survives a restart of Postgres: with recovery class C it
/// could not be found again. Returns the error if it must not be retried.
async fn wait_before_retry(claimed: &Claimed, error: Error, attempts: &mut u32) -> Result<()> {
    if !db::is_temporary(&error) || *attempts >= RECORD_ATTEMPTS {
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
    let cause = match result {
        SendResult::Known(ProviderResponse::Refused { code, .. }) => Some(*code),
        SendResult::NotProcessed { cause, .. } => cause.map(|cause| cause.code()),
        SendResult::Known(_) | SendResult::Pending | SendResult::Unknown { .. } => None,
    };
    if cause == Some(FailureCode::Configuration) {
        counters::count("payments_configuration_errors_total", claimed);
    }
    counters::count_request(claimed, outcome);
    if let SendResult::Known(response) = result {
        counters::count_money(claimed, response);
    }
}

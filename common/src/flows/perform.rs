//! Doing an operation: claim, send or recover, record. What a worker does with an id from the queue.

use std::time::Duration;

use tokio::time::error::Elapsed;
use uuid::Uuid;

use super::counters;
use super::outcome::tell_late;
use super::record_outcome;
use crate::clock::Clock;
use crate::db::{self, Db};
use crate::error::{Error, Result};
use crate::id::OperationId;
use crate::operations::{self, Claimed, Kind, PROVIDER_TIMEOUT, Retry, Subject, WhenNotProcessed};
use crate::payments;
use crate::proof::{self, Rule, failpoint};
use crate::providers::{Answer, Cause, FailureCode, Fault, Found, Provider, ProviderKind, Providers, RecoveryClass};

/// A known outcome that cannot be written is tried again so often, half a second apart: about as long as a restart of
/// Postgres takes. After that the lease has ended and recovery finds the outcome again, where the provider offers that.
const RECORD_TRIES: u32 = 120;
const RECORD_PAUSE: Duration = Duration::from_millis(500);
/// How long until a provider is asked again for an outcome that it has not told.
const ASK_AGAIN: Duration = Duration::from_secs(3);
/// A reference counts as unknown to the provider when so many look-ups in a row found nothing, each made when no request
/// could still arrive.
const LOOK_UPS: i32 = 2;

/// An operation that has come to its end, and who is to be told.
#[derive(Debug)]
pub struct Performed {
    /// The reply channel of the waiting process.
    pub reply_to: Option<String>,
    /// The id that it waits under.
    pub reply_id: Uuid,
}

/// Takes an operation as far as it goes now. `None`: it was not ours to take, or its outcome is still unknown.
///
/// # Errors
/// The database's. Whatever was sent by then is found again by recovery.
pub async fn perform(db: &Db, providers: &Providers, clock: &Clock, id: OperationId) -> Result<Option<Performed>> {
    let Some(mut claimed) = operations::claim(db, id, clock.now()).await? else { return Ok(None) };
    complete(db, &mut claimed).await?;
    if claimed.sent_before && !proof::holds(Rule::Reference) {
        claimed.request.reference = format!("{}-{}", claimed.request.reference, claimed.fence);
    }
    failpoint("perform.claimed").await?;
    let asked = ask_provider(db, providers, &mut claimed).await?;
    tell_breaker(db, &claimed, &asked).await;
    let asked = asked.or_the_end(&claimed, providers.retry_limit());
    if matches!(asked, Asked::Known(Answer::Refused { .. })) {
        failpoint("perform.refused").await?;
    }
    count(&claimed, &asked);
    let mut tries = 0;
    match asked {
        Asked::NotProcessed { cause, reason } => {
            tracing::warn!(operation = %id, %reason, "not processed; it is sent again");
            failpoint("perform.not_processed").await?;
            while let Err(error) = operations::put_back(db, &claimed, cause).await {
                wait_to_write(&claimed, error, &mut tries).await?;
            }
            failpoint("perform.put_back").await?;
            Ok(None)
        }
        Asked::Known(answer) => {
            failpoint("perform.answered").await?;
            while let Err(error) = record_outcome(db, &claimed, &answer, clock).await {
                wait_to_write(&claimed, error, &mut tries).await?;
            }
            failpoint("perform.recorded").await?;
            if !proof::holds(Rule::Event) {
                tell_late(db, &claimed, clock).await?;
            }
            Ok(Some(Performed { reply_to: claimed.origin.reply_to, reply_id: claimed.subject.reply_id() }))
        }
        Asked::Pending => {
            tracing::info!(operation = %id, "the provider has it, and has not come to an end; it is asked again");
            leave_unknown(db, &claimed, Retry::After(ASK_AGAIN), false).await?;
            Ok(None)
        }
        Asked::Unknown { reason, retry, found_nothing } => {
            match retry {
                Retry::After(_) => {
                    tracing::warn!(operation = %id, %reason, "outcome unknown; the provider is asked again")
                }
                Retry::ByAPerson => tracing::error!(
                    operation = %id, %reason,
                    "outcome unknown, and this provider can neither look it up nor take it twice: a person must find out"
                ),
            }
            leave_unknown(db, &claimed, retry, found_nothing).await?;
            Ok(None)
        }
    }
}

/// Sends the request, or finds out what became of the one before.
async fn ask_provider(db: &Db, providers: &Providers, claimed: &mut Claimed) -> Result<Asked> {
    Ok(match providers.get(claimed.provider) {
        Some(provider) if claimed.sent_before => recover(db, provider, claimed).await?,
        Some(_) if !operations::admit(db, claimed).await => {
            Asked::NotProcessed { cause: None, reason: HELD.to_owned() }
        }
        Some(provider) => send(provider, claimed, true).await,
        // Another build may have sent it already, and another build will take it up.
        None => Asked::again("this build has no adapter for the provider"),
    })
}

/// Counts what was not processed towards the breaker, and closes it after what was. If that fails the next operation does it: what is
/// known of this one must be written all the same.
async fn tell_breaker(db: &Db, claimed: &Claimed, asked: &Asked) {
    let written = if let Asked::NotProcessed { cause: Some(cause), reason } = asked
        && cause.is_of_account()
    {
        operations::count_not_processed(db, claimed, reason).await
    } else if claimed.has_breaker && asked.is_processed() {
        operations::close_breaker(db, claimed.provider_account_id).await
    } else {
        return;
    };
    if let Err(error) = written {
        tracing::warn!(operation = %claimed.id, %error, "the circuit breaker was not updated");
    }
}

/// What some providers want to know beside: they are asked alone.
async fn complete(db: &Db, claimed: &mut Claimed) -> Result<()> {
    if claimed.provider == ProviderKind::Mock {
        return Ok(());
    }
    match (claimed.kind, claimed.subject) {
        (Kind::Sale | Kind::Authorize, Subject::Payment(id)) => {
            claimed.request.payer = Some(operations::payer(db, id).await?);
        }
        (Kind::Refund, Subject::Payment(id)) if claimed.sent_before => {
            claimed.request.recorded = operations::recorded_refunds(db, claimed.account_id, id).await?;
        }
        _ => {}
    }
    Ok(())
}

/// Gives the operation back. A refund in doubt shows on its payment, so that no other change is begun meanwhile; a capture
/// or void has shown there since its intent.
async fn leave_unknown(db: &Db, claimed: &Claimed, retry: Retry, found_nothing: bool) -> Result<()> {
    failpoint("perform.learnt_nothing").await?;
    let mut tx = db.begin().await?;
    if let (Kind::Refund, Subject::Payment(id)) = (claimed.kind, claimed.subject) {
        let mut payment = payments::lock(&mut tx, claimed.account_id, id).await?;
        let open = !operations::lock(&mut tx, claimed.id).await?.state.is_final();
        if open && payment.pending_operation.is_none() {
            payment.pending_operation = Some(Kind::Refund);
            payments::save(&mut tx, &payment).await?;
        }
    }
    operations::leave_unknown(&mut tx, claimed, retry, found_nothing).await?;
    failpoint("perform.left_unknown").await?;
    tx.commit().await?;
    Ok(())
}

/// Why an operation was not sent.
const HELD: &str = "the provider has processed nothing of late";

enum Asked {
    Known(Answer),
    /// Nothing was done: by the provider's word, or (without a cause) because nothing was sent.
    NotProcessed {
        cause: Option<Cause>,
        reason: String,
    },
    /// It has arrived, and its end is still ahead.
    Pending,
    Unknown {
        reason: String,
        retry: Retry,
        found_nothing: bool,
    },
}

impl Asked {
    fn again(reason: impl Into<String>) -> Self {
        Self::Unknown { reason: reason.into(), retry: Retry::After(ASK_AGAIN), found_nothing: false }
    }

    /// What was not processed is an outcome where somebody waits for it, and where it has gone on for long enough.
    fn or_the_end(self, claimed: &Claimed, limit: Duration) -> Self {
        let Self::NotProcessed { cause, reason } = self else { return self };
        let code = cause.map_or(FailureCode::ProviderUnavailable, Cause::code);
        match claimed.when_not_processed() {
            WhenNotProcessed::GoesOnForEver => Self::NotProcessed { cause, reason },
            WhenNotProcessed::GoesOn if claimed.age < limit => Self::NotProcessed { cause, reason },
            WhenNotProcessed::GoesOn => {
                tracing::error!(operation = %claimed.id, %reason, ?limit, "not processed for so long that it is given up");
                metrics::counter!("payments_not_processed_given_up_total", "provider" => claimed.provider.name())
                    .increment(1);
                Self::Known(Answer::Refused { code, reason })
            }
            WhenNotProcessed::Ends => Self::Known(Answer::Refused { code, reason }),
        }
    }

    /// Whether the provider has processed a request of this account, so that it will process others.
    fn is_processed(&self) -> bool {
        match self {
            Self::Known(Answer::Refused { code: FailureCode::ProviderUnavailable, .. }) => false,
            Self::Known(_) | Self::Pending | Self::NotProcessed { cause: Some(Cause::Setup), .. } => true,
            Self::NotProcessed { .. } | Self::Unknown { .. } => false,
        }
    }
}

/// Sends. The time-out is here, and not around the whole handler: a cancelled future must not cut a request in two. `first`: no
/// earlier request was sent, so if this one was not processed nothing was, and that is an outcome.
async fn send(provider: &dyn Provider, claimed: &Claimed, first: bool) -> Asked {
    match tokio::time::timeout(PROVIDER_TIMEOUT, provider.execute(claimed.request.clone())).await {
        Ok(Ok(answer)) => Asked::Known(answer),
        Ok(Err(_)) | Err(_) if !proof::holds(Rule::Unknown) => Asked::Known(Answer::refused("no answer")),
        Ok(Err(Fault::NotProcessed { cause, reason })) if first => Asked::NotProcessed { cause: Some(cause), reason },
        Ok(Err(fault)) => Asked::again(fault.to_string()),
        Err(_) => Asked::again(format!("no answer within {PROVIDER_TIMEOUT:?}")),
    }
}

/// A request may have been sent before. What is safe now depends on what the provider offers.
async fn recover(db: &Db, provider: &dyn Provider, claimed: &mut Claimed) -> Result<Asked> {
    let class = match provider.recovery(claimed.provider_account_id, claimed.kind).await {
        Ok(class) => class,
        Err(fault) => return Ok(Asked::again(fault.to_string())),
    };
    match class {
        RecoveryClass::Idempotent if !operations::admit(db, claimed).await => Ok(Asked::again(HELD)),
        RecoveryClass::Idempotent => send_again(db, provider, claimed).await,
        RecoveryClass::Lookup => look_up(db, provider, claimed).await,
        RecoveryClass::Neither => {
            Ok(Asked::Unknown { reason: "the answer was lost".into(), retry: Retry::ByAPerson, found_nothing: false })
        }
    }
}

/// What this one came to says nothing of the request before it, which may still be on its way.
async fn send_again(db: &Db, provider: &dyn Provider, claimed: &mut Claimed) -> Result<Asked> {
    operations::sending_again(db, claimed).await?;
    failpoint("perform.renewed").await?;
    Ok(send(provider, claimed, false).await)
}

async fn ask(provider: &dyn Provider, claimed: &Claimed) -> Result<Result<Found, Fault>, Elapsed> {
    tokio::time::timeout(PROVIDER_TIMEOUT, provider.look_up(claimed.request.clone())).await
}

async fn look_up(db: &Db, provider: &dyn Provider, claimed: &mut Claimed) -> Result<Asked> {
    failpoint("perform.taken_over").await?;
    let found = ask(provider, claimed).await;
    failpoint("perform.looked_up").await?;
    match found {
        Ok(Ok(Found::Answer(answer))) => Ok(Asked::Known(answer)),
        Ok(Ok(Found::Pending)) => Ok(Asked::Pending),
        Ok(Ok(Found::Nothing)) if !proof::holds(Rule::NotFound) => Ok(Asked::Known(Answer::refused("not found"))),
        Ok(Ok(Found::Nothing)) if !claimed.last_request_is_dead => {
            Ok(Asked::again("not found, but the request may still arrive"))
        }
        Ok(Ok(Found::Nothing)) if claimed.not_found + 1 < LOOK_UPS => Ok(Asked::Unknown {
            reason: "not found; asking once more before it is believed".into(),
            retry: Retry::After(ASK_AGAIN),
            found_nothing: true,
        }),
        Ok(Ok(Found::Nothing)) if !operations::admit(db, claimed).await => Ok(Asked::again(HELD)),
        Ok(Ok(Found::Nothing)) => {
            let asked = send_again(db, provider, claimed).await?;
            failpoint("perform.answered_again").await?;
            Ok(doubt_refusal(provider, claimed, asked).await)
        }
        Ok(Err(fault)) => Ok(Asked::again(fault.to_string())),
        Err(_) => Ok(Asked::again(format!("no look-up within {PROVIDER_TIMEOUT:?}"))),
    }
}

/// A refusal of what was sent again may be of the earlier request's doing ("captured before"), so the provider is asked once
/// more before it is believed.
async fn doubt_refusal(provider: &dyn Provider, claimed: &Claimed, asked: Asked) -> Asked {
    if !matches!(asked, Asked::Known(Answer::Refused { .. })) {
        return asked;
    }
    match ask(provider, claimed).await {
        Ok(Ok(Found::Nothing)) => asked,
        Ok(Ok(Found::Answer(answer))) => Asked::Known(answer),
        Ok(Ok(Found::Pending)) => Asked::Pending,
        Ok(Err(fault)) => Asked::again(fault.to_string()),
        Err(_) => Asked::again(format!("no look-up within {PROVIDER_TIMEOUT:?}")),
    }
}

/// What is known is written through a restart of Postgres if need be: in class C nobody could find it again. Waits before the next
/// try, or gives the error back if there is to be none.
async fn wait_to_write(claimed: &Claimed, error: Error, tries: &mut u32) -> Result<()> {
    let may_pass = |error: &_| db::lost_connection(error) || db::worth_repeating(error);
    if !matches!(&error, Error::Database(error) if may_pass(error)) || *tries >= RECORD_TRIES {
        return Err(error);
    }
    *tries += 1;
    tracing::warn!(operation = %claimed.id, %error, tries, "what is known could not be written; trying again");
    tokio::time::sleep(RECORD_PAUSE).await;
    Ok(())
}

fn count(claimed: &Claimed, asked: &Asked) {
    let outcome = match asked {
        Asked::Known(Answer::Charged { .. } | Answer::Done { .. } | Answer::Stored { .. }) => "succeeded",
        Asked::Known(Answer::Challenged { .. }) => "challenged",
        Asked::Known(Answer::Declined { .. }) => "declined",
        Asked::Known(Answer::Refused { .. } | Answer::Mismatched { .. }) => "failed",
        Asked::NotProcessed { .. } => "not_processed",
        Asked::Pending => "pending",
        Asked::Unknown { .. } => "unknown",
    };
    let refused = match asked {
        Asked::Known(Answer::Refused { code, .. }) => Some(*code),
        Asked::NotProcessed { cause: Some(cause), .. } => Some(cause.code()),
        Asked::NotProcessed { cause: None, .. } | Asked::Known(_) | Asked::Pending | Asked::Unknown { .. } => None,
    };
    if refused == Some(FailureCode::Configuration) {
        metrics::counter!("payments_configuration_errors_total", "provider" => claimed.provider.name()).increment(1);
    }
    counters::count_request(claimed, outcome);
    if let Asked::Known(answer) = asked {
        counters::count_money(claimed, answer);
    }
}

//! Operations that a provider does not process, and the circuit breaker of a provider account.
//!
//! After a few operations in a row that the provider did not process, only a probe is sent now and then. Operations that are deferred
//! meanwhile are sent at a bounded rate once it processes requests again. Only requests that certainly did nothing count: a lost
//! answer says nothing about the next request.

use std::time::Duration;

use sqlx::PgPool;

use super::{Claimed, Kind, store};
use crate::db::Db;
use crate::error::Result;
use crate::id::{AccountId, ProviderAccountId};
use crate::proof::{self, Rule};
use crate::providers::{Cause, ProviderKind};
use crate::time::Timestamp;

/// Operations in a row, each counted once, that open the breaker.
pub(super) const OPENS_AFTER: i32 = 5;
/// Operations of a provider account that are sent in a second, of those that were put off.
const BACKLOG_PER_SECOND: f64 = 50.0;
/// Backoff of an operation that was not processed: this, doubled each time, and no more than the second.
const FIRST_BACKOFF: Duration = Duration::from_secs(2);
const LONGEST_BACKOFF: Duration = Duration::from_secs(60);

/// How long after its last try an operation is sent again that was not processed so often.
pub(super) fn backoff(not_processed: i32) -> Duration {
    let doubled = FIRST_BACKOFF * 2u32.pow(not_processed.clamp(0, 5).unsigned_abs());
    doubled.min(LONGEST_BACKOFF)
}

/// What becomes of an operation whose request certainly did nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenNotProcessed {
    /// It ends, for somebody waits for it and may decide.
    Ends,
    /// It is sent again until the provider has decided, or until it is as old as the limit.
    GoesOn,
    /// It is sent again until the provider has decided: it puts something right.
    GoesOnForEver,
}

impl Claimed {
    /// What becomes of it if its request certainly did nothing.
    pub fn when_not_processed(&self) -> WhenNotProcessed {
        match self.kind {
            _ if !proof::holds(Rule::NotProcessed) => WhenNotProcessed::Ends,
            _ if self.by_system => WhenNotProcessed::GoesOnForEver,
            Kind::Reverse => WhenNotProcessed::GoesOnForEver,
            Kind::Refund => WhenNotProcessed::GoesOn,
            Kind::Sale | Kind::Authorize if self.background => WhenNotProcessed::GoesOn,
            Kind::Sale | Kind::Authorize | Kind::Capture | Kind::Void | Kind::StoreCard => WhenNotProcessed::Ends,
        }
    }
}

/// Whether this operation may be sent: the breaker is closed, or a probe is due. While somebody waits for it, a probe a second is.
/// If the database does not say, it is sent: it has been claimed for that, and in class C a claim that sends nothing is a person's.
pub async fn admit(db: &PgPool, claimed: &Claimed) -> bool {
    if !claimed.has_breaker || !proof::holds(Rule::Breaker) {
        return true;
    }
    let admitted = store::breaker::admit(db, claimed.provider_account_id, !claimed.background, OPENS_AFTER).await;
    admitted.unwrap_or_else(|error| {
        tracing::warn!(operation = %claimed.id, %error, "the circuit breaker could not be asked");
        true
    })
}

/// Counts an operation towards the breaker that was not processed, for a reason that says something of other requests.
///
/// # Errors
/// Only the database's.
pub async fn count_not_processed(db: &PgPool, claimed: &Claimed, reason: &str) -> Result<()> {
    store::breaker::count(db, claimed, reason).await
}

/// Makes an operation ready again that was not processed, or not sent because the breaker is open (`cause` is none), and puts it
/// behind the others. Nothing happens if the claim was lost.
///
/// # Errors
/// Only the database's.
pub async fn put_back(db: &Db, claimed: &Claimed, cause: Option<Cause>) -> Result<()> {
    let backoff = backoff(claimed.not_processed);
    let gap = Duration::from_secs_f64(1.0 / BACKLOG_PER_SECOND);
    // Rows are locked in this order: the breaker, the operation.
    let mut tx = db.begin().await?;
    let counts = cause.is_none_or(Cause::is_of_account);
    let slot = match counts {
        true => store::breaker::next_slot(&mut tx, claimed.provider_account_id, backoff, gap).await?,
        false => None,
    };
    // It was not sent, and the breaker has closed since: nothing speaks against sending it now.
    let backoff = if cause.is_none() && slot.is_none() { Duration::ZERO } else { backoff };
    store::breaker::put_back(&mut tx, claimed.id, claimed.fence, slot, backoff).await?;
    tx.commit().await?;
    Ok(())
}

/// The provider has processed a request of this account: whatever was put off is sent when its turn comes.
///
/// # Errors
/// Only the database's.
pub async fn close_breaker(db: &PgPool, account: ProviderAccountId) -> Result<()> {
    if store::breaker::close(db, account).await? {
        tracing::info!(provider_account = %account, "the provider processes requests again");
    }
    Ok(())
}

/// A provider account whose breaker is open.
#[derive(Debug)]
pub struct Breaker {
    /// Which.
    pub provider_account_id: ProviderAccountId,
    /// Whose.
    pub account_id: AccountId,
    /// Who is there.
    pub provider: ProviderKind,
    /// When the first request was not processed.
    pub since: Timestamp,
    /// For how long that is.
    pub seconds: f64,
    /// Why the last one was not.
    pub reason: String,
}

/// The breakers that are open, the oldest first, so many at most.
///
/// # Errors
/// Only the database's.
pub async fn breakers(db: &PgPool, most: i64) -> Result<Vec<Breaker>> {
    store::breaker::open(db, OPENS_AFTER, most).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_backoff_doubles_to_a_minute() {
        let seconds: Vec<_> = (-1..8).map(|times| backoff(times).as_secs()).collect();
        assert_eq!(seconds, [2, 2, 4, 8, 16, 32, 60, 60, 60]);
    }
}

//! The circuit breaker of a provider account, and retries of operations that the provider did not process.
//!
//! After a few unprocessed operations in a row, only an occasional probe is sent. Deferred operations are sent at a
//! bounded rate once the provider processes requests again. Only requests that certainly had no effect count: a lost
//! response does not mean that the next request would fail.

use std::time::Duration;

use sqlx::{PgConnection, PgPool};

use super::claim::Claimed;
use crate::accounts::Mode;
use foundation::db::Db;
use foundation::error::Result;
use foundation::id::{AccountId, OperationId, ProviderAccountId};
use foundation::rule_enabled;
use foundation::time::Timestamp;
use providers::{Cause, OperationKind, ProviderKind};

/// The breaker opens after this many unprocessed operations in a row. An operation counts once, however often it is
/// retried.
pub(super) const OPENS_AFTER: i32 = 5;
/// Deferred operations that are sent per second and provider account.
const BACKLOG_PER_SECOND: f64 = 50.0;
/// Backoff of an unprocessed operation: starts at the first value and doubles up to the second.
const FIRST_BACKOFF: Duration = Duration::from_secs(2);
const LONGEST_BACKOFF: Duration = Duration::from_secs(60);
/// Backoff of an operation that the breaker held back. A probe is sent every 30 s, so up to a thousand of them are sent
/// within a minute after the provider is back.
const HELD_BACK: Duration = Duration::from_secs(8);

/// Returns the delay before the next attempt of an operation that was not processed `not_processed` times.
fn backoff(not_processed: i32) -> Duration {
    let doubled = FIRST_BACKOFF * 2u32.pow(not_processed.clamp(0, 5).unsigned_abs());
    doubled.min(LONGEST_BACKOFF)
}

/// What to do with an operation whose request certainly had no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenNotProcessed {
    /// It fails: a client waits for it and can decide what to do.
    Fail,
    /// It is retried until the provider decides, or until the retry limit.
    RetryUntilLimit,
    /// It is retried until the provider decides, without a limit, because it corrects an error.
    RetryForever,
}

/// Whether an operation that was not processed can be sent again under its reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    Unused,
    /// The provider has recorded a request under it and will never process one.
    UsedUp,
}

impl Claimed {
    /// What to do with the operation if its request certainly had no effect.
    pub fn when_not_processed(&self) -> WhenNotProcessed {
        match self.kind {
            _ if !rule_enabled!(NotProcessed) => WhenNotProcessed::Fail,
            _ if self.by_system => WhenNotProcessed::RetryForever,
            OperationKind::Reverse | OperationKind::ReverseByRefund => WhenNotProcessed::RetryForever,
            OperationKind::Refund => WhenNotProcessed::RetryUntilLimit,
            OperationKind::Sale | OperationKind::Authorize if self.background => WhenNotProcessed::RetryUntilLimit,
            OperationKind::Sale
            | OperationKind::Authorize
            | OperationKind::Capture
            | OperationKind::Void
            | OperationKind::StoreCard => WhenNotProcessed::Fail,
        }
    }
}

/// Whether this operation may be sent: the breaker is closed, or a probe is due. While a client waits, one probe per
/// second is allowed. If the database cannot respond, the operation is sent: it has already been claimed, and in
/// recovery class C a claim that sends nothing would need manual review.
pub async fn admit(db: &PgPool, claimed: &Claimed) -> bool {
    if !claimed.has_breaker || !rule_enabled!(Breaker) {
        return true;
    }
    let admitted = admit_or_probe(db, claimed.provider_account_id, !claimed.background, OPENS_AFTER).await;
    admitted.unwrap_or_else(|error| {
        tracing::warn!(operation = %claimed.id, %error, "failed to query the circuit breaker");
        true
    })
}

/// Sending a probe schedules the next one: after 1 s, doubled up to 30 s.
async fn admit_or_probe(db: &PgPool, account: ProviderAccountId, client_waits: bool, opens_after: i32) -> Result<bool> {
    let admitted = sqlx::query_scalar!(
        r#"WITH probe AS (
               UPDATE provider_breakers
               SET probes = probes + 1, probed_at = clock_timestamp(),
                   probe_at = clock_timestamp() + make_interval(secs => least(30, 2 ^ least(probes, 5)))
               WHERE provider_account_id = $1 AND failures >= $3
                 AND (probe_at <= clock_timestamp()
                      OR ($2 AND coalesce(probed_at, '-infinity') < clock_timestamp() - interval '1 second'))
               RETURNING 1)
           SELECT EXISTS (SELECT FROM probe)
               OR NOT EXISTS (SELECT FROM provider_breakers WHERE provider_account_id = $1 AND failures >= $3) AS "admitted!""#,
        account.uuid(),
        client_waits,
        opens_after,
    );
    Ok(admitted.fetch_one(db).await?)
}

/// Counts an unprocessed operation towards the breaker. The cause must be one that affects other requests too.
///
/// # Errors
/// Database errors only.
pub async fn count_not_processed(db: &PgPool, claimed: &Claimed, reason: &str) -> Result<()> {
    sqlx::query!(
        "INSERT INTO provider_breakers AS b
             (provider_account_id, account_id, failures, last_operation_id, reason, since, probe_at, next_slot_at)
         VALUES ($1, $2, 1, $3, $4, clock_timestamp(), clock_timestamp() + interval '1 second', clock_timestamp())
         ON CONFLICT (provider_account_id) DO UPDATE SET
             failures = b.failures + CASE WHEN b.last_operation_id = $3 THEN 0 ELSE 1 END, last_operation_id = $3, reason = $4",
        claimed.provider_account_id.uuid(),
        claimed.account_id.uuid(),
        claimed.id.uuid(),
        reason,
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Requeues an operation that was not processed, or that was not sent because the breaker is open (`cause` is `None`),
/// behind the other deferred operations. It gets a new reference if its own is used up. Does nothing if the claim was
/// lost.
///
/// # Errors
/// Database errors only.
pub async fn requeue(db: &Db, claimed: &Claimed, cause: Option<Cause>, reference: Reference) -> Result<()> {
    // It was not sent.
    let is_held_back = cause.is_none() && reference == Reference::Unused;
    let backoff = if is_held_back { HELD_BACK } else { backoff(claimed.not_processed) };
    let gap = Duration::from_secs_f64(1.0 / BACKLOG_PER_SECOND);
    // Lock order: the breaker, then the operation.
    let mut tx = db.begin().await?;
    let slot = if cause.is_none_or(Cause::affects_account) {
        next_slot(&mut tx, claimed.provider_account_id, backoff, gap).await?
    } else {
        None
    };
    // The breaker has closed since, so it can be sent now.
    let backoff = if is_held_back && slot.is_none() { Duration::ZERO } else { backoff };
    let new_reference =
        (reference == Reference::UsedUp).then(|| next_reference(claimed.id, &claimed.request.reference));
    sqlx::query!(
        "UPDATE operations SET state = 'ready', lease_until = NULL, not_processed = not_processed + 1, not_found = 0,
                next_push_at = coalesce($3, clock_timestamp() + make_interval(secs => $4)),
                reference = coalesce($5, reference)
         WHERE id = $1 AND fence = $2 AND (state = 'sending' OR state = 'unknown' AND $5::text IS NOT NULL)",
        claimed.id.uuid(),
        claimed.fence,
        slot,
        backoff.as_secs_f64(),
        new_reference,
    )
    .execute(&mut *tx)
    .await?;
    tx.commit().await?;
    Ok(())
}

/// The reference after one that is used up. It is counted: after a restore the operation gets the one under which the
/// provider may already have executed it.
fn next_reference(id: OperationId, used_up: &str) -> String {
    let count = used_up.rsplit_once('-').and_then(|(_, count)| count.parse::<u64>().ok()).unwrap_or(0);
    format!("{id}-{}", count + 1)
}

/// Returns when a deferred operation is sent: after its backoff, and at a distance from the others. The longer backoff of a
/// probe does not delay the others. `None` if the breaker has been closed.
async fn next_slot(
    tx: &mut PgConnection,
    account: ProviderAccountId,
    backoff: Duration,
    gap: Duration,
) -> Result<Option<Timestamp>> {
    let slot = sqlx::query_scalar!(
        r#"UPDATE provider_breakers
           SET next_slot_at = greatest(next_slot_at, clock_timestamp() + make_interval(secs => least($2, $4))) + make_interval(secs => $3)
           WHERE provider_account_id = $1
           RETURNING greatest(next_slot_at, clock_timestamp() + make_interval(secs => $2)) AS "slot!: Timestamp""#,
        account.uuid(),
        backoff.as_secs_f64(),
        gap.as_secs_f64(),
        HELD_BACK.as_secs_f64(),
    );
    Ok(slot.fetch_optional(tx).await?)
}

/// Closes the breaker: the provider has processed a request of this account, so deferred operations are sent in turn.
///
/// # Errors
/// Database errors only.
pub async fn close_breaker(db: &PgPool, account: ProviderAccountId) -> Result<()> {
    let closed = sqlx::query!("DELETE FROM provider_breakers WHERE provider_account_id = $1", account.uuid())
        .execute(db)
        .await?;
    if closed.rows_affected() > 0 {
        tracing::info!(provider_account = %account, "the provider processes requests again");
    }
    Ok(())
}

/// A provider account whose breaker is open.
#[derive(Debug)]
pub struct Breaker {
    pub provider_account_id: ProviderAccountId,
    pub account_id: AccountId,
    pub mode: Mode,
    pub provider: ProviderKind,
    /// When the first request was not processed.
    pub since: Timestamp,
    /// How long it has been open.
    pub seconds: f64,
    /// Why the last request was not processed.
    pub reason: String,
}

/// Returns up to `limit` open breakers, oldest first.
///
/// # Errors
/// Database errors only.
pub async fn breakers(db: &PgPool, limit: i64) -> Result<Vec<Breaker>> {
    let rows = sqlx::query_as!(
        Breaker,
        r#"SELECT b.provider_account_id, b.account_id, a.mode AS "mode: Mode", p.provider, b.since, b.reason,
                  extract(epoch FROM clock_timestamp() - b.since)::float8 AS "seconds!"
           FROM provider_breakers b JOIN provider_accounts p ON p.id = b.provider_account_id
               JOIN accounts a ON a.id = b.account_id
           WHERE b.failures >= $1 ORDER BY b.since LIMIT $2"#,
        OPENS_AFTER,
        limit,
    );
    Ok(rows.fetch_all(db).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_up_to_a_minute() {
        let seconds: Vec<_> = (-1..8).map(|times| backoff(times).as_secs()).collect();
        assert_eq!(seconds, [2, 2, 4, 8, 16, 32, 60, 60, 60]);
    }

    #[test]
    fn references_after_used_up_ones_are_counted() {
        let id: OperationId = "op_01ARZ3NDEKTSV4RRFFQ69G5FAV".parse().expect("an id");
        let second = next_reference(id, &id.to_string());
        assert_eq!(second, "op_01ARZ3NDEKTSV4RRFFQ69G5FAV-1");
        assert_eq!(next_reference(id, &second), "op_01ARZ3NDEKTSV4RRFFQ69G5FAV-2");
    }
}

//! SQL for test clocks.

use std::time::Duration;

use sqlx::{PgConnection, PgPool};

use super::{Advance, RunningAdvance, StoppedAdvance, TestClock};
use foundation::db;
use foundation::error::Result;
use foundation::id::AccountId;
use foundation::time::Timestamp;

pub(super) async fn find(db: &PgPool, account: AccountId, now: Timestamp) -> Result<TestClock> {
    let row = sqlx::query_as!(
        TestClock,
        r#"SELECT account_now($1, $2) AS "now!", (SELECT target FROM test_clocks WHERE account_id = $1) AS target"#,
        account.uuid(),
        now,
    )
    .fetch_one(db)
    .await?;
    Ok(row)
}

/// Returns the seconds to wait; `None` if a concurrent transaction has just inserted the row, which this one cannot
/// see. The advisory lock waits for transactions that do the account's due work and found no clock to hold.
pub(super) async fn create(db: &PgPool, account: AccountId, cache_ttl: Duration) -> Result<Option<f64>> {
    let mut tx = db::begin(db).await?;
    sqlx::query!("SELECT pg_advisory_xact_lock(making_of_clock($1)) AS locked", account.uuid())
        .execute(&mut *tx)
        .await?;
    let wait = sqlx::query_scalar!(
        "WITH made AS (
             INSERT INTO test_clocks (account_id) VALUES ($1) ON CONFLICT (account_id) DO NOTHING RETURNING created_at),
         clock AS (
             SELECT created_at FROM made UNION ALL SELECT created_at FROM test_clocks WHERE account_id = $1)
         SELECT greatest(0, extract(epoch FROM created_at + make_interval(secs => $2) - clock_timestamp()))::float8 FROM clock",
        account.uuid(),
        cache_ttl.as_secs_f64(),
    )
    .fetch_optional(&mut *tx)
    .await?;
    // Not `db::commit`, which would rule out a retry of the request: creating the clock twice is harmless.
    tx.commit().await?;
    Ok(wait.flatten())
}

/// Computes the time from the row's own columns, as `account_now` does: a function would see their values from before
/// the statement waited for the row lock.
pub(super) async fn begin(
    db: &PgPool,
    account: AccountId,
    to: Timestamp,
    now: Timestamp,
    push_after: Duration,
) -> Result<Option<Timestamp>> {
    let frozen_at = sqlx::query_scalar!(
        r#"UPDATE test_clocks SET target = $2, next_push_at = clock_timestamp() + make_interval(secs => $4),
                  frozen_at = greatest(reached, $3::timestamptz + ahead_us * interval '1 microsecond')
           WHERE account_id = $1 AND target IS NULL
             AND greatest(reached, $3::timestamptz + ahead_us * interval '1 microsecond') < $2
           RETURNING frozen_at AS "frozen_at!""#,
        account.uuid(),
        to,
        now,
        push_after.as_secs_f64(),
    )
    .fetch_optional(db)
    .await?;
    Ok(frozen_at)
}

pub(super) async fn take_due(db: &PgPool, push_after: Duration, batch: i64) -> Result<Vec<AccountId>> {
    let rows = sqlx::query_scalar!(
        "UPDATE test_clocks SET next_push_at = clock_timestamp() + make_interval(secs => $1)
         WHERE account_id IN (SELECT account_id FROM test_clocks
                              WHERE next_push_at <= (SELECT clock_timestamp())
                                AND (lease_until IS NULL OR lease_until < clock_timestamp())
                              ORDER BY next_push_at LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED)
         RETURNING account_id",
        push_after.as_secs_f64(),
        batch,
    )
    .fetch_all(db)
    .await?;
    Ok(rows)
}

pub(super) async fn claim(db: &PgPool, account: AccountId, lease: Duration) -> Result<Option<Advance>> {
    let row = sqlx::query!(
        r#"UPDATE test_clocks SET fence = fence + 1, lease_until = clock_timestamp() + make_interval(secs => $2)
           WHERE account_id = $1 AND target IS NOT NULL AND (lease_until IS NULL OR lease_until < clock_timestamp())
           RETURNING frozen_at AS "frozen_at!", target AS "target!", fence"#,
        account.uuid(),
        lease.as_secs_f64(),
    )
    .fetch_optional(db)
    .await?;
    Ok(row.map(|row| Advance { account, frozen_at: row.frozen_at, target: row.target, fence: row.fence }))
}

pub(super) async fn step(db: &PgPool, advance: &Advance, to: Timestamp, lease: Duration) -> Result<Option<Timestamp>> {
    let frozen_at = sqlx::query_scalar!(
        r#"UPDATE test_clocks SET frozen_at = least(target, greatest(frozen_at, $3)),
                  lease_until = clock_timestamp() + make_interval(secs => $4)
           WHERE account_id = $1 AND fence = $2 AND target IS NOT NULL RETURNING frozen_at AS "frozen_at!""#,
        advance.account.uuid(),
        advance.fence,
        to,
        lease.as_secs_f64(),
    )
    .fetch_optional(db)
    .await?;
    Ok(frozen_at)
}

/// If the real time has passed the target, the clock shows the real time again.
pub(super) async fn finish(db: &PgPool, advance: &Advance, now: Timestamp) -> Result<bool> {
    let result = sqlx::query!(
        "UPDATE test_clocks SET ahead_us = greatest(0, extract(epoch FROM target - $3::timestamptz) * 1000000)::bigint,
                reached = target, frozen_at = NULL, target = NULL, lease_until = NULL, next_push_at = NULL
         WHERE account_id = $1 AND fence = $2 AND target IS NOT NULL",
        advance.account.uuid(),
        advance.fence,
        now,
    )
    .execute(db)
    .await?;
    Ok(result.rows_affected() == 1)
}

/// Increments the fencing token, as a claim does: the next advance may start before the previous worker notices the
/// stop. Computes `ahead_us` from the database's clock, because the clock of the operator's machine may be wrong.
pub(super) async fn stop(tx: &mut PgConnection, account: AccountId) -> Result<Option<StoppedAdvance>> {
    let stopped = sqlx::query_as!(
        StoppedAdvance,
        r#"SELECT frozen_at AS "at!", target AS "target!" FROM test_clocks
           WHERE account_id = $1 AND target IS NOT NULL FOR NO KEY UPDATE"#,
        account.uuid(),
    )
    .fetch_optional(&mut *tx)
    .await?;
    if stopped.is_some() {
        sqlx::query!(
            "UPDATE test_clocks
             SET ahead_us = greatest(0, extract(epoch FROM frozen_at - clock_timestamp()) * 1000000)::bigint, reached = frozen_at,
                 frozen_at = NULL, target = NULL, lease_until = NULL, next_push_at = NULL, fence = fence + 1
             WHERE account_id = $1",
            account.uuid(),
        )
        .execute(tx)
        .await?;
    }
    Ok(stopped)
}

pub(super) async fn is_account(tx: &mut PgConnection, id: AccountId) -> Result<bool> {
    let query = sqlx::query_scalar!(r#"SELECT EXISTS (SELECT FROM accounts WHERE id = $1) AS "known!""#, id.uuid());
    Ok(query.fetch_one(tx).await?)
}

pub(super) async fn running(db: &PgPool, limit: i64) -> Result<Vec<RunningAdvance>> {
    let rows = sqlx::query_as!(
        RunningAdvance,
        r#"SELECT account_id AS account, frozen_at AS "at!", target AS "target!" FROM test_clocks
           WHERE target IS NOT NULL ORDER BY account_id LIMIT $1"#,
        limit,
    )
    .fetch_all(db)
    .await?;
    Ok(rows)
}

pub(super) async fn release(db: &PgPool, advance: &Advance) -> Result<()> {
    sqlx::query!(
        "UPDATE test_clocks SET lease_until = NULL, next_push_at = clock_timestamp() + make_interval(secs => $3)
         WHERE account_id = $1 AND fence = $2 AND target IS NOT NULL",
        advance.account.uuid(),
        advance.fence,
        super::PUSH_INTERVAL.as_secs_f64(),
    )
    .execute(db)
    .await?;
    Ok(())
}

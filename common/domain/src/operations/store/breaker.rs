//! SQL of circuit breakers.

use std::time::Duration;

use sqlx::{PgConnection, PgPool};

use crate::operations::{Breaker, Claimed};
use foundation::error::Result;
use foundation::id::{OperationId, ProviderAccountId};
use foundation::time::Timestamp;

/// Sending a probe schedules the next one: after 1 s, doubled up to 30 s.
pub(in crate::operations) async fn admit(
    db: &PgPool,
    account: ProviderAccountId,
    client_waits: bool,
    opens_after: i32,
) -> Result<bool> {
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

pub(in crate::operations) async fn count(db: &PgPool, claimed: &Claimed, reason: &str) -> Result<()> {
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

/// Returns when the next deferred operation may be sent; `None` if the breaker has been closed.
pub(in crate::operations) async fn next_slot(
    tx: &mut PgConnection,
    account: ProviderAccountId,
    backoff: Duration,
    gap: Duration,
) -> Result<Option<Timestamp>> {
    let slot = sqlx::query_scalar!(
        "UPDATE provider_breakers
         SET next_slot_at = greatest(next_slot_at, clock_timestamp() + make_interval(secs => $2)) + make_interval(secs => $3)
         WHERE provider_account_id = $1 RETURNING next_slot_at",
        account.uuid(),
        backoff.as_secs_f64(),
        gap.as_secs_f64(),
    );
    Ok(slot.fetch_optional(tx).await?)
}

pub(in crate::operations) async fn requeue(
    tx: &mut PgConnection,
    id: OperationId,
    fence: i64,
    slot: Option<Timestamp>,
    backoff: Duration,
) -> Result<()> {
    sqlx::query!(
        "UPDATE operations SET state = 'ready', lease_until = NULL, not_processed = not_processed + 1,
                next_push_at = coalesce($3, clock_timestamp() + make_interval(secs => $4))
         WHERE id = $1 AND fence = $2 AND state = 'sending'",
        id.uuid(),
        fence,
        slot,
        backoff.as_secs_f64(),
    )
    .execute(tx)
    .await?;
    Ok(())
}

pub(in crate::operations) async fn close(db: &PgPool, account: ProviderAccountId) -> Result<bool> {
    let closed = sqlx::query!("DELETE FROM provider_breakers WHERE provider_account_id = $1", account.uuid())
        .execute(db)
        .await?;
    Ok(closed.rows_affected() > 0)
}

pub(in crate::operations) async fn open(db: &PgPool, opens_after: i32, limit: i64) -> Result<Vec<Breaker>> {
    let rows = sqlx::query_as!(
        Breaker,
        r#"SELECT b.provider_account_id, b.account_id, p.provider, b.since, b.reason,
                  extract(epoch FROM clock_timestamp() - b.since)::float8 AS "seconds!"
           FROM provider_breakers b JOIN provider_accounts p ON p.id = b.provider_account_id
           WHERE b.failures >= $1 ORDER BY b.since LIMIT $2"#,
        opens_after,
        limit,
    );
    Ok(rows.fetch_all(db).await?)
}

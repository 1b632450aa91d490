//! The SQL of the sweep.

use sqlx::PgPool;

/// Rows deleted at once, of each kind.
const BATCH: i64 = 1_000;

/// Deletes expired tokens, proxy numbers and former keys, whatever they hold with them, and guards that guard nothing any more. The time of
/// the statement does not move, so an index can be read up to it and no further.
pub(super) async fn forget(db: &PgPool) -> Result<u64, sqlx::Error> {
    let tokens = sqlx::query!(
        "DELETE FROM gateway.field_tokens WHERE token_hash = ANY (ARRAY (
             SELECT token_hash FROM gateway.field_tokens WHERE forget_at <= statement_timestamp()
             ORDER BY forget_at LIMIT $1 FOR UPDATE SKIP LOCKED))",
        BATCH,
    )
    .execute(db)
    .await?;
    let proxies = sqlx::query!(
        "DELETE FROM gateway.proxy_numbers WHERE proxy_hash = ANY (ARRAY (
             SELECT proxy_hash FROM gateway.proxy_numbers WHERE expires_at <= statement_timestamp()
             ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED))",
        BATCH,
    )
    .execute(db)
    .await?;
    let keys = sqlx::query!(
        "DELETE FROM gateway.former_keys WHERE account_id = ANY (ARRAY (
             SELECT account_id FROM gateway.former_keys WHERE until <= statement_timestamp()
             ORDER BY until LIMIT $1 FOR UPDATE SKIP LOCKED))",
        BATCH,
    )
    .execute(db)
    .await?;
    // An account reads `until` by the gateway's clock, which may be behind; an hour is ample.
    let guards = sqlx::query!(
        "DELETE FROM gateway.duplicate_guards WHERE (account_id, fingerprint) IN (
             SELECT account_id, fingerprint FROM gateway.duplicate_guards
             WHERE until <= statement_timestamp() - interval '1 hour' ORDER BY until LIMIT $1 FOR UPDATE SKIP LOCKED)",
        BATCH,
    )
    .execute(db)
    .await?;
    let of_merchants = tokens.rows_affected() + proxies.rows_affected();
    Ok(of_merchants + keys.rows_affected() + guards.rows_affected())
}

/// Transactions without an end, counted no further than a thousand.
pub(super) async fn unfinished(db: &PgPool) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM (
             SELECT 1 FROM gateway.transactions WHERE recover_at IS NOT NULL ORDER BY recover_at LIMIT $1) AS unfinished"#,
        BATCH,
    )
    .fetch_one(db)
    .await
}

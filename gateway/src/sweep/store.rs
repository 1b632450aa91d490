//! The SQL of the sweep.

use sqlx::PgPool;

/// Rows deleted at once, of each kind.
const BATCH: i64 = 1_000;

/// Deletes what has expired. The time of the statement does not move, so an index can be read up to it and no further.
macro_rules! forget {
    ($db:ident, $table:literal, $key:literal, $until:literal) => {
        sqlx::query!(
            "DELETE FROM gateway."
                + $table
                + " WHERE "
                + $key
                + " = ANY (ARRAY (
                 SELECT "
                + $key
                + " FROM gateway."
                + $table
                + " WHERE "
                + $until
                + " <= statement_timestamp()
                 ORDER BY "
                + $until
                + " LIMIT $1 FOR UPDATE SKIP LOCKED))",
            BATCH,
        )
        .execute($db)
        .await?
        .rows_affected()
    };
}

/// Deletes expired tokens, proxy numbers and former keys, whatever they hold with them, and guards that guard nothing any more.
pub(super) async fn forget(db: &PgPool) -> Result<u64, sqlx::Error> {
    let tokens = forget!(db, "field_tokens", "token_hash", "forget_at");
    let proxies = forget!(db, "proxy_numbers", "proxy_hash", "expires_at");
    let keys = forget!(db, "former_keys", "account_id", "until");
    // An account reads `until` by the gateway's clock, which may be behind; an hour is ample.
    let guards = sqlx::query!(
        "DELETE FROM gateway.duplicate_guards WHERE (account_id, fingerprint) IN (
             SELECT account_id, fingerprint FROM gateway.duplicate_guards
             WHERE until <= statement_timestamp() - interval '1 hour' ORDER BY until LIMIT $1 FOR UPDATE SKIP LOCKED)",
        BATCH,
    )
    .execute(db)
    .await?;
    Ok(tokens + proxies + keys + guards.rows_affected())
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

//! Housekeeping, run once a second by every process: recovers abandoned transactions, ends expired challenges, and
//! deletes expired data.

use std::time::Duration;

use sqlx::PgPool;
use tokio_util::sync::CancellationToken;

use crate::processing::Processor;

const INTERVAL: Duration = Duration::from_secs(1);
/// Rows deleted per statement.
const BATCH: i64 = 1_000;

/// Runs until `stop`. An error is logged, and the next round retries.
pub async fn run(processor: Processor, stop: CancellationToken) {
    loop {
        if let Err(error) = round(&processor).await {
            tracing::error!(%error, "a round of the sweep failed; the next one will retry");
        }
        tokio::select! {
            () = tokio::time::sleep(INTERVAL) => {}
            () = stop.cancelled() => return,
        }
    }
}

async fn round(processor: &Processor) -> Result<(), sqlx::Error> {
    processor.recover().await?;
    let deleted = delete_expired(&processor.db).await?;
    if deleted > 0 {
        tracing::debug!(rows = deleted, "deleted expired rows");
    }
    let unfinished = count_unfinished(&processor.db).await?;
    metrics::gauge!("gateway_transactions_unfinished").set(unfinished as f64);
    Ok(())
}

/// Deletes expired rows. `statement_timestamp()` is constant within a statement, so the index can be scanned up to it.
macro_rules! delete_expired_from {
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

/// Deletes expired tokens, proxy numbers, former keys, and duplicate guards.
async fn delete_expired(db: &PgPool) -> Result<u64, sqlx::Error> {
    let tokens = delete_expired_from!(db, "field_tokens", "token_hash", "forget_at");
    let proxies = delete_expired_from!(db, "proxy_numbers", "proxy_hash", "expires_at");
    let keys = delete_expired_from!(db, "former_keys", "account_id", "until");
    // Accounts compare `until` with the gateway's clock, which may be behind; an hour is ample.
    let guards = sqlx::query!(
        "DELETE FROM gateway.duplicate_guards WHERE ctid = ANY (ARRAY(SELECT ctid FROM gateway.duplicate_guards
             WHERE until <= statement_timestamp() - interval '1 hour' ORDER BY until LIMIT $1 FOR UPDATE SKIP LOCKED))",
        BATCH,
    )
    .execute(db)
    .await?;
    Ok(tokens + proxies + keys + guards.rows_affected())
}

/// Unfinished transactions, counted up to 1,000.
async fn count_unfinished(db: &PgPool) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM (
             SELECT 1 FROM gateway.transactions WHERE recover_at IS NOT NULL ORDER BY recover_at LIMIT $1) AS unfinished"#,
        BATCH,
    )
    .fetch_one(db)
    .await
}

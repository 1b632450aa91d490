//! Disk space per payment.

use std::collections::BTreeMap;

use anyhow::Result;
use sqlx::{Connection, PgConnection};

/// The size in bytes of each table with its indexes, monthly partitions combined; and the number of payments.
pub(super) async fn table_sizes(database_url: &str) -> Result<(BTreeMap<String, i64>, i64)> {
    let mut db = PgConnection::connect(database_url).await?;
    let sizes: Vec<(String, i64)> = sqlx::query_as(
        "SELECT regexp_replace(relname, '_([0-9]{4}_[0-9]{2}|default)$', ''), sum(pg_total_relation_size(oid))::bigint
         FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' GROUP BY 1",
    )
    .fetch_all(&mut db)
    .await?;
    let payments = sqlx::query_scalar("SELECT count(*) FROM payments").fetch_one(&mut db).await?;
    Ok((sizes.into_iter().collect(), payments))
}

/// The growth of each table per payment in bytes, for tables that grew by at least one byte.
pub(super) fn per_payment(
    before: &(BTreeMap<String, i64>, i64),
    after: &(BTreeMap<String, i64>, i64),
) -> BTreeMap<String, f64> {
    let payments = (after.1 - before.1) as f64;
    let growth = after
        .0
        .iter()
        .map(|(table, bytes)| (table.clone(), (bytes - before.0.get(table).unwrap_or(&0)) as f64 / payments));
    growth.filter(|(_, bytes)| *bytes >= 1.0).collect()
}

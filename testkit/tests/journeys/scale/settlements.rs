//! A day's settlement reads only the rows of that day.

use anyhow::{Context, Result};
use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use testkit::Cluster;
use uuid::Uuid;

use super::plans::statements;

/// As on the connections of the processes (common/foundation/src/db.rs).
const SETTINGS: &str = "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off;
    SET enable_mergejoin = off; SET enable_sort = off; SET plan_cache_mode = force_generic_plan";
/// Spreads the rows over the hours before.
const SPREAD: &str = "WITH numbered AS (SELECT id, row_number() OVER () AS n FROM payments WHERE status <> 'declined')
         UPDATE payments p SET settled_at = '2026-01-01T00:00:00Z'::timestamptz - n.n * interval '1 hour'
         FROM numbered n WHERE n.id = p.id;
     WITH numbered AS (SELECT id, row_number() OVER () AS n FROM refunds)
         UPDATE refunds r SET status = 'succeeded', payment_id = (SELECT id FROM payments WHERE settled_at IS NOT NULL LIMIT 1),
             finished_at = '2026-01-01T00:00:00Z'::timestamptz - n.n * interval '1 hour'
         FROM numbered n WHERE n.id = r.id";

/// The rows that the scans of a plan read, used or not.
fn scanned(node: &Value) -> u64 {
    let own = |name: &str| node[name].as_f64().unwrap_or_default();
    let parts: u64 = node["Plans"].as_array().into_iter().flatten().map(scanned).sum();
    let is_scan = node["Node Type"].as_str().is_some_and(|kind| kind.ends_with("Scan") && kind != "Subquery Scan");
    let rows = (own("Actual Rows") + own("Rows Removed by Filter")) * own("Actual Loops");
    parts + if is_scan { rows as u64 } else { 0 }
}

/// `account` has many rows, some of which this changes.
pub(super) async fn a_day_reads_only_its_own_rows(cluster: &Cluster, account: Uuid) -> Result<()> {
    let mut db = PgConnection::connect(cluster.database_url()).await?;
    sqlx::query("SET session_replication_role = replica").execute(&mut db).await?;
    sqlx::raw_sql(SPREAD).execute(&mut db).await?;
    sqlx::raw_sql("ANALYZE").execute(&mut db).await?;
    sqlx::raw_sql(SETTINGS).execute(&mut db).await?;
    let all = statements()?;
    let (statement, _) = all.iter().find(|(text, _)| text.contains("p.settled_at >= $2")).context("no statement")?;
    sqlx::raw_sql(AssertSqlSafe(format!("PREPARE checked AS {statement}"))).execute(&mut db).await?;
    let explain = format!(
        "EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE checked('{account}', '2025-12-20T00:00:00Z', '2025-12-21T00:00:00Z')"
    );
    let plan: Value = sqlx::query_scalar(AssertSqlSafe(explain)).persistent(false).fetch_one(&mut db).await?;
    let rows = scanned(&plan[0]["Plan"]);
    // 24 payments, and 24 refunds each with its payment.
    assert!((48..=80).contains(&rows), "{rows} rows were read: {plan}");
    Ok(())
}

//! A filtered page of a list reads no rows but its own: each filter has an index in the order of the list.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use testkit::Cluster;
use uuid::Uuid;

use super::plans::statements;

/// As on the connections of the processes for lists (common/foundation/src/db).
const SETTINGS: &str = "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off;
    SET enable_mergejoin = off; SET jit = off; SET plan_cache_mode = force_custom_plan";
/// The page size.
const LIMIT: u64 = 10;

/// Whether a statement reads a filtered list. It is planned for the values of its filters.
pub(super) fn is_filtered_list(statement: &str) -> bool {
    let has_filters = statement.contains(" IS NULL OR ") || statement.contains(" IS NOT TRUE OR ");
    has_filters && statement.contains("account_id DESC, ")
}

/// The values with which a parameter is tried: of a filter, such that few rows or all match; otherwise the widest.
fn values(statement: &str, number: usize, kind: &str, account: Uuid) -> Vec<String> {
    let has = |text: &str| {
        statement.contains(&format!("{text} ${number}")) || statement.contains(&format!("{text} (${number}"))
    };
    if has("account_id =") {
        return vec![format!("'{account}'")];
    } else if has("LIMIT") {
        return vec![LIMIT.to_string()];
    } else if has("id >=") {
        return vec![format!("'{}'", Uuid::nil())];
    } else if has("id <") {
        return vec![format!("'{}'", Uuid::max())];
    }
    match kind {
        "uuid" => vec!["gen_random_uuid()".to_owned()],
        "text" => vec!["'none'".to_owned()],
        "boolean" => vec!["true".to_owned(), "false".to_owned()],
        "bigint" => vec![if has("amount >=") { i64::MAX } else { 0 }.to_string()],
        "timestamp with time zone" => vec!["now()".to_owned()],
        kind => (1..=3).map(|nth| format!("(enum_range(NULL::{kind}))[{nth}]")).collect(),
    }
}

fn is_filter(statement: &str, number: usize) -> bool {
    // Its rows are limited by their ids as well.
    statement.contains(&format!("(${number}::"))
        && !statement.contains(&format!("event_timestamp(payload) >= ${number}"))
        && !statement.contains(&format!("event_timestamp(payload) < ${number}"))
}

/// Rows that the nodes of a plan read in vain, and the most that a node returned.
fn read(node: &Value) -> (u64, u64) {
    let own = |name: &str| node[name].as_f64().unwrap_or_default() as u64;
    let parts = node["Plans"].as_array().into_iter().flatten().map(read);
    let removed = own("Rows Removed by Filter") + own("Rows Removed by Join Filter");
    parts.fold((removed, own("Actual Rows")), |sum, part| (sum.0 + part.0, sum.1.max(part.1)))
}

/// `account` has many rows, and the tables have statistics.
pub(super) async fn a_filtered_page_reads_only_its_own_rows(cluster: &Cluster, account: Uuid) -> Result<()> {
    let mut db = PgConnection::connect(cluster.database_url()).await?;
    sqlx::raw_sql(SETTINGS).execute(&mut db).await?;
    let (mut tried, mut bad) = (0, Vec::new());
    for (statement, _) in statements()?.into_iter().filter(|(statement, _)| is_filtered_list(statement)) {
        sqlx::raw_sql(AssertSqlSafe(format!("PREPARE checked AS {statement}"))).execute(&mut db).await?;
        let types = "SELECT parameter_types::text[] FROM pg_prepared_statements WHERE name = 'checked'";
        let types: Vec<String> = sqlx::query_scalar(types).fetch_one(&mut db).await?;
        let values = |number: usize| values(&statement, number, &types[number - 1], account);
        for filter in (1..=types.len()).filter(|number| is_filter(&statement, *number)) {
            let by_due_date = [">=", "<"].iter().any(|sign| statement.contains(&format!("i.due_at {sign} ${filter})")));
            for value in values(filter) {
                let arguments = (1..=types.len()).map(|number| match number {
                    _ if number == filter => value.clone(),
                    // By due date, the invoices of each status are read by themselves.
                    _ if by_due_date && statement.contains(&format!("i.status = ${number})")) => "'paid'".to_owned(),
                    _ if statement.contains(&format!("(${number}::")) => "NULL".to_owned(),
                    _ => values(number).remove(0),
                });
                let arguments = arguments.collect::<Vec<_>>().join(", ");
                let explain = format!("EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE checked({arguments})");
                let plan: Value = sqlx::query_scalar(AssertSqlSafe(explain))
                    .persistent(false)
                    .fetch_one(&mut db)
                    .await
                    .context(statement.clone())?;
                let (in_vain, most) = read(&plan[0]["Plan"]);
                tried += 1;
                // One payment in this table is of an invoice, and the planner may read it for any subscription.
                if in_vain > 1 || most > LIMIT {
                    bad.push(format!("${filter} = {value}: {in_vain} rows in vain, up to {most} at once: {statement}"));
                }
            }
        }
        sqlx::raw_sql("DEALLOCATE checked").execute(&mut db).await?;
    }
    ensure!(tried > 30, "only {tried} filters were found");
    ensure!(bad.is_empty(), "{} filters:\n{}", bad.len(), bad.join("\n"));
    Ok(())
}

//! Query plans of the card gateway's statements, for an account with many transactions: no plan may read transactions
//! that its statement does not need.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use testkit::Cluster;

use super::plans::{DISABLED, Indexes, indexes, plan, statements_that};
use crate::support::{Shop, copies};

/// Copies of a transaction.
const ROWS: i64 = 1_000;

/// Columns that select one transaction, or a few, of all.
const SELECTIVE: [&str; 5] = ["id", "account_id", "parent_id", "reference_id", "client_ip"];

/// The unfinished transactions are few.
const UNFINISHED: &str = "transactions_to_recover";

/// Whether a condition of a plan compares a column in this way.
fn compares(condition: &str, column: &str, operator: &str) -> bool {
    // A column of another table has its alias before it.
    ["(", "."].iter().any(|before| condition.contains(&format!("{before}{column} {operator}")))
}

/// The problem of a plan node, if it reads transactions that the statement does not need.
fn problem(node: &Value, indexes: &Indexes) -> Option<String> {
    let text = |name: &str| node[name].as_str().unwrap_or_default();
    let (kind, index, bound, filter) = (text("Node Type"), text("Index Name"), text("Index Cond"), text("Filter"));
    if text("Relation Name") != "transactions" || !kind.ends_with("Scan") {
        return None;
    }
    let whole_table = kind == "Seq Scan" || (bound.is_empty() && index != UNFINISHED);
    let by_network = ["client_network(", "set_masklen("].iter().any(|function| filter.contains(function));
    let filtered =
        by_network || (SELECTIVE.iter().any(|column| compares(filter, column, "=")) && !compares(bound, "id", "="));
    // All entries within the range are read, whatever a later column must equal.
    let mut columns = indexes.get(index).into_iter().flatten();
    let behind_range = columns.any(|column| compares(bound, column, ">") || compares(bound, column, "<"))
        && columns.any(|column| compares(bound, column, "="));
    (whole_table || filtered || behind_range).then(|| format!("{kind} by {index} ({bound}), filters {filter}"))
}

fn collect_problems(node: &Value, indexes: &Indexes, problems: &mut Vec<String>) {
    problems.extend(problem(node, indexes));
    for part in node["Plans"].as_array().into_iter().flatten() {
        collect_problems(part, indexes, problems);
    }
}

#[tokio::test]
async fn no_statement_of_the_gateway_reads_transactions_that_it_does_not_need() -> Result<()> {
    let cluster = Cluster::builder().api(1).gateway(1).start().await?;
    Shop::new(&cluster, &[]).await?.sell_at_gateway("4242424242424242", "original").await?;
    let mut db = PgConnection::connect(cluster.database_url()).await?;
    sqlx::query("SET session_replication_role = replica").execute(&mut db).await?;
    let own = "'id', new_ulid(now() + n * interval '1 millisecond'), 'reference_id', 'copy-' || n,
               'client_ip', '10.0.' || n / 250 || '.' || n % 250";
    let copy = copies("gateway.transactions", "gateway.transactions t, generate_series(1, $1) n", own);
    let copied = sqlx::query(copy).bind(ROWS).execute(&mut db).await.context("copying")?;
    assert_eq!(i64::try_from(copied.rows_affected())?, ROWS);
    sqlx::query("ANALYZE").execute(&mut db).await?;
    sqlx::query("SET plan_cache_mode = force_generic_plan").execute(&mut db).await?;
    for kind in DISABLED {
        sqlx::query(AssertSqlSafe(format!("SET enable_{kind} = off"))).execute(&mut db).await?;
    }
    let indexes = indexes(&mut db).await?;
    let statements = statements_that(|text| text.contains("gateway.transactions"))?;
    assert!(statements.len() > 20, "only {} statements", statements.len());
    let mut bad = Vec::new();
    for (statement, parameters) in &statements {
        let mut problems = Vec::new();
        collect_problems(&plan(&mut db, statement, *parameters).await?, &indexes, &mut problems);
        if !problems.is_empty() {
            bad.push((statement, problems));
        }
    }
    ensure!(bad.is_empty(), "{} statements:\n{bad:#?}", bad.len());
    Ok(())
}

//! Query plans of every sqlx-checked statement, for tables in which one large account owns all rows. Then every index
//! seems as good to the planner as one that starts with the account, and a cached plan stays when other accounts
//! arrive: no plan may scan rows that its statement does not need. The tables of a new database have no statistics yet,
//! so the batches are also checked without. The test asserts plans, which do not depend on the machine's load.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    path::Path,
};

use anyhow::{Context, Result, ensure};
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use testkit::Cluster;

use super::filters::{a_filtered_page_reads_only_its_own_rows, is_filtered_list};
use super::settlements::a_day_reads_only_its_own_rows;
use crate::support::{Merchant, copies, created, eventually, id};

/// Copies per table.
const ROWS: i64 = 1_000;

/// Each table that grows, and the columns that a copy must replace, by its number `n`.
const TABLES: [(&str, &str); 19] = [
    ("customers", ""),
    ("payment_methods", "'customer_id', new_ulid(now())"),
    ("addresses", "'customer_id', new_ulid(now())"),
    ("plans", "'amount', n + 100000"),
    ("subscriptions", "'customer_id', new_ulid(now())"),
    ("recurring_invoices", "'customer_id', new_ulid(now())"),
    ("invoices", "'customer_id', new_ulid(now()), 'number', n + 100000, 'page_token', repeat('x', 32) || n"),
    ("payment_links", "'page_token', repeat('y', 32) || n"),
    ("payments", "'customer_id', new_ulid(now()), 'provider_ref', 'copy-' || n, 'invoice_id', null"),
    ("refunds", "'payment_id', new_ulid(now())"),
    ("disputes", "'payment_id', new_ulid(now()), 'provider_ref', 'copy-' || n"),
    ("operations", "'payment_id', new_ulid(now()), 'reference', 'copy-' || n, 'kind', 'sale', 'refund_id', null"),
    ("webhook_endpoints", ""),
    ("webhook_pending", "'event_id', new_ulid(now())"),
    ("webhook_deliveries", "'event_id', new_ulid(now())"),
    ("events", ""),
    ("audit_log", ""),
    ("mails", ""),
    ("collection_attempts", "'invoice_id', new_ulid(now()), 'payment_id', new_ulid(now())"),
];

/// Creates at least one row of each table.
async fn create_rows(merchant: &Merchant) -> Result<()> {
    let make = async |path: &str, body: Value| -> Result<String> { id(created(&merchant.api.post(path, body).await?)) };
    make("/v1/webhook_endpoints", json!({"url": "http://127.0.0.1:9/"})).await?;
    let customer = merchant.customer().await?;
    created(&merchant.save_card(&customer, "tok_ok").await?);
    make("/v1/addresses", json!({"customerId": customer, "line1": "1 Main St", "country": "US"})).await?;
    let plan = make(
        "/v1/plans",
        json!({"name": "Gold", "amount": 2900, "currency": "USD", "interval": "month", "intervalCount": 1}),
    )
    .await?;
    make("/v1/subscriptions", json!({"customerId": customer, "planId": plan, "startAt": "2090-01-01"})).await?;
    let invoice = json!({"customerId": customer, "currency": "USD", "amount": 700});
    let invoice = make("/v1/invoices", invoice).await?;
    let now = json!({"collectAt": "2020-01-01T00:00:00Z"});
    assert_eq!(merchant.api.post(&format!("/v1/invoices/{invoice}/schedule"), now).await?.status, 200);
    assert_eq!(merchant.api.send(Method::POST, "/v1/invoices/scheduler/run", None).await?.status, 200);
    let monthly = json!({"customerId": customer, "cadence": {"unit": "monthly", "interval": 1}, "startDate": "2090-01-01",
        "template": {"currency": "USD", "items": [{"description": "Rent", "quantity": 1, "unitAmount": 700}]}});
    make("/v1/recurring_invoices", monthly).await?;
    make("/v1/payment_links", json!({"amount": 700, "currency": "USD"})).await?;
    let receipt = "INSERT INTO mails (id, account_id, kind, due_at)
                   VALUES (new_ulid(now()), $1, 'receipt', now() + interval '1 day')";
    sqlx::query(receipt).bind(merchant.books.account).execute(&merchant.books.db).await?;
    let payment = merchant.charge(500).await?;
    merchant.dispute(&payment).await?;
    assert_eq!(merchant.refund(&payment, Some(100)).await?.status, 202);
    eventually("the refund", async || Ok((merchant.payment(&payment).await?["amountRefunded"] == 100).then_some(())))
        .await
}

async fn copy_rows(db: &mut PgConnection, account: uuid::Uuid) -> Result<()> {
    sqlx::query("SET session_replication_role = replica").execute(&mut *db).await?;
    for (table, own) in TABLES {
        let own = if own.is_empty() { String::new() } else { format!(", {own}") };
        let own = format!("'id', new_ulid(now() + n * interval '1 millisecond'){own}");
        let rows = format!("(SELECT * FROM {table} WHERE account_id = $1 LIMIT 1) t, generate_series(1, $2) n");
        let copy = sqlx::query(copies(table, &rows, &own)).bind(account).bind(ROWS);
        let copied = copy.execute(&mut *db).await.context(table)?;
        assert_eq!(i64::try_from(copied.rows_affected())?, ROWS, "{table} must have a row to copy");
    }
    Ok(())
}

/// The statements of the processes with their parameter counts, without those of the card gateway and the mock.
pub(super) fn statements() -> Result<Vec<(String, usize)>> {
    let statements = statements_that(|text| !text.contains("gateway.") && !text.contains("mock."))?;
    assert!(statements.len() > 200, "only {} statements", statements.len());
    Ok(statements)
}

/// The statements of the processes that fulfil a condition, with their parameter counts.
pub(super) fn statements_that(is_wanted: impl Fn(&str) -> bool) -> Result<Vec<(String, usize)>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("no parent")?.join(".sqlx");
    let mut statements = Vec::new();
    for entry in fs::read_dir(folder)? {
        let described: Value = serde_json::from_slice(&fs::read(entry?.path())?)?;
        let text = described["query"].as_str().context("no query")?;
        if is_wanted(text) {
            let parameters = described["describe"]["parameters"]["Left"].as_array().map_or(0, Vec::len);
            statements.push((text.to_owned(), parameters));
        }
    }
    Ok(statements)
}

/// Whether it is a table that grows, or a partition of one.
fn grows(table: &str) -> bool {
    TABLES.iter().any(|(name, _)| table.starts_with(name))
}

/// The problem of a plan node, if any.
fn problem(node: &Value) -> Option<String> {
    let text = |name: &str| node[name].as_str().unwrap_or_default();
    let (kind, table, bound, filter) = (text("Node Type"), text("Relation Name"), text("Index Cond"), text("Filter"));
    // Rows of an account, each compared with the rows of another scan.
    let inner = node["Plans"].as_array().into_iter().flatten().find(|part| part["Parent Relationship"] == "Inner");
    if let Some(inner) = inner
        && grows(inner["Relation Name"].as_str().unwrap_or_default())
        && inner["Index Cond"].as_str().is_some_and(|bound| bound.starts_with("(account_id = ") && bound.contains('.') && !bound.contains(" AND "))
        // A partial index of few rows.
        && inner["Index Name"] != "collection_attempts_one_in_flight"
    {
        return Some(format!("{kind} with {} by its account", inner["Relation Name"]));
    }
    if !grows(table) {
        return None;
    }
    // A single row by its id, of any account.
    let other_conditions = bound.replace("account_id = ", "");
    let by_id = other_conditions.contains("(id = ") || other_conditions.contains("_id = ");
    // Operators list all accounts, optionally filtered by account.
    let all_accounts = filter.contains("IS NULL) OR (account_id = ");
    let scans_other_accounts = filter.contains("account_id = ") && !by_id && !all_accounts;
    let scans_own_rows = filter.contains("= ANY ($") && !by_id;
    // clock_timestamp() is volatile, so it cannot be an index condition.
    let due = ["next_push_at", "due_at", "next_attempt_at", "expires_at", "reconcile_at"];
    let scans_rows_not_due = due.iter().any(|due| {
        filter.contains(&format!("{due} <= clock_timestamp()"))
            || filter.contains(&format!("{due} < clock_timestamp()"))
    });
    let parents = ["customer_id", "invoice_id", "subscription_id", "recurring_invoice_id", "endpoint_id", "plan_id"];
    let scans_other_parents = parents.iter().any(|parent| filter.contains(&format!("{parent} = $"))) && !by_id;
    (kind == "Seq Scan" || scans_other_parents || scans_other_accounts || scans_own_rows || scans_rows_not_due)
        .then(|| format!("{kind} of {table} by {} ({bound}), filters {filter}", text("Index Name")))
}

/// The problem of a join that compares each value of a batch with each row of an account, if it is one.
fn each_with_each(node: &Value) -> Option<String> {
    let is_batch = |part: &&Value| matches!(part["Node Type"].as_str(), Some("Function Scan" | "CTE Scan"));
    let sides = ["Outer", "Inner"].map(|side| {
        let mut parts = node["Plans"].as_array().into_iter().flatten();
        parts.find(|part| part["Parent Relationship"] == side)
    });
    sides.iter().flatten().find(|part| is_batch(part))?;
    let rows = sides.into_iter().flatten().find_map(all_of_account)?;
    let by = node["Join Filter"].as_str().filter(|_| node["Node Type"] == "Nested Loop")?;
    Some(format!("all of {rows} compared by {by}"))
}

/// The table of which a plan node reads all rows of an account, perhaps from several partitions and kept in memory.
fn all_of_account(node: &Value) -> Option<&str> {
    if matches!(node["Node Type"].as_str(), Some("Append" | "Materialize")) {
        return node["Plans"].as_array()?.iter().find_map(all_of_account);
    }
    let table = node["Relation Name"].as_str()?;
    let bound = node["Index Cond"].as_str().unwrap_or_default();
    let by_account = bound.is_empty() || (bound.starts_with("(account_id = $") && !bound.contains(" AND "));
    (by_account && grows(table)).then_some(table)
}

/// The problem of a join that reads a whole table on one side, if it is one. A nested loop looks up single rows instead.
fn whole_table_joined(node: &Value) -> Option<String> {
    if !matches!(node["Node Type"].as_str(), Some("Hash" | "Merge Join")) {
        return None;
    }
    let parts = node["Plans"].as_array().into_iter().flatten();
    let is_table = |part: &Value| TABLES.iter().any(|(name, _)| part["Relation Name"].as_str() == Some(*name));
    let whole = parts.into_iter().find(|part| is_table(part) && part["Index Cond"].is_null())?;
    Some(format!("{} of all {}", node["Node Type"], whole["Relation Name"]))
}

/// The problem of a page whose rows are sorted before its limit applies: all of them are read.
fn sorted_before_limit(node: &Value) -> Option<String> {
    let part = &node["Plans"][0];
    let sorts = matches!(part["Node Type"].as_str(), Some("Sort" | "Incremental Sort"));
    let table = part["Plans"][0]["Relation Name"].as_str()?;
    (node["Node Type"] == "Limit" && sorts).then(|| format!("all of {table} sorted by {}", part["Sort Key"]))
}

/// The problem of rows that are locked in a join of the rows to change: if the join reads them once for each of the other
/// side's, SKIP LOCKED and LIMIT select other rows each time. They belong into a materialized CTE.
fn locked_again(node: &Value) -> Option<String> {
    fn locks(node: &Value) -> bool {
        let mut parts = node["Plans"].as_array().into_iter().flatten();
        node["Node Type"] == "LockRows" || parts.any(|part| part["Parent Relationship"] != "InitPlan" && locks(part))
    }
    (node["Node Type"] == "ModifyTable" && locks(node)).then(|| format!("{} locks rows in its join", node["Operation"]))
}

/// The columns of each index, in order, of tables that are not empty: those of an empty one are planned again when it
/// has grown.
pub(super) type Indexes = HashMap<String, Vec<String>>;

pub(super) async fn indexes(db: &mut PgConnection) -> Result<Indexes> {
    let columns = "SELECT c.relname::text, array_agg(pg_get_indexdef(i.indexrelid, n, true) ORDER BY n)
                   FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid, generate_series(1, i.indnkeyatts) n
                   WHERE pg_relation_size(i.indrelid) > 0 GROUP BY 1";
    Ok(sqlx::query_as(columns).fetch_all(db).await?.into_iter().collect())
}

/// The problem of an index whose condition leaves out a column before another: all entries in between are read.
fn column_left_out(node: &Value, indexes: &Indexes) -> Option<String> {
    let (bound, name) = (node["Index Cond"].as_str()?, node["Index Name"].as_str()?);
    grows(node["Relation Name"].as_str().unwrap_or_default()).then_some(())?;
    // Operators look up a pending delivery by its id alone.
    (node["Relation Name"] != "webhook_pending" || bound != "(id = $1)").then_some(())?;
    let is_part = |c: char| c.is_alphanumeric() || "_.\"".contains(c);
    // A column of another table has its alias before it. Expressions are printed in other ways.
    let bounds = |column: &String| column.contains('(') || bound.split(|c| !is_part(c)).any(|word| word == column);
    let columns = indexes.get(name)?;
    let left_out = columns.iter().skip_while(|column| bounds(column)).skip(1).any(bounds);
    left_out.then(|| format!("{name} {columns:?} by {bound}"))
}

fn collect_problems(node: &Value, indexes: &Indexes, problems: &mut Vec<String>) {
    problems.extend(problem(node));
    problems.extend(column_left_out(node, indexes));
    problems.extend(locked_again(node));
    problems.extend(sorted_before_limit(node));
    problems.extend(whole_table_joined(node));
    problems.extend(each_with_each(node));
    for part in node["Plans"].as_array().into_iter().flatten() {
        collect_problems(part, indexes, problems);
    }
}

/// What the processes' connections disable (common/foundation/src/db.rs), and the test shows to be necessary: a plan
/// made for a small table, or without statistics, would otherwise read a table that has grown.
pub(super) const DISABLED: [&str; 5] = ["seqscan", "bitmapscan", "hashjoin", "mergejoin", "sort"];

#[tokio::test]
async fn no_statement_reads_rows_that_it_does_not_need() -> Result<()> {
    let cluster = Cluster::builder().api(1).worker(1).start().await?;
    let large = Merchant::new(&cluster).await?;
    create_rows(&large).await?;
    let mut db = PgConnection::connect(cluster.database_url()).await?;
    sqlx::query("SET plan_cache_mode = force_generic_plan").execute(&mut db).await?;
    copy_rows(&mut db, large.books.account).await?;
    // Until the first ANALYZE, a second after the first rows, only the statements that every payment needs matter.
    let all = checked_statements()?;
    let batches: Vec<_> = all.iter().filter(|(statement, _)| is_batch(statement)).cloned().collect();
    let unneeded = check_plans(&mut db, &batches, &DISABLED).await.context("without statistics")?;
    sqlx::query("ANALYZE").execute(&mut db).await?;
    let unneeded = check_plans(&mut db, &all, &unneeded).await.context("with statistics")?;
    ensure!(unneeded.is_empty(), "no plan needs {unneeded:?} to be disabled");
    let account = large.books.account;
    a_filtered_page_reads_only_its_own_rows(&cluster, account).await.context("filtered lists")?;
    a_day_reads_only_its_own_rows(&cluster, account).await.context("the settlement of a day")
}

/// Whether a statement concerns several given rows, as those of every payment do. A plan that is not right by itself
/// reads more with each row that its table gains.
fn is_batch(statement: &str) -> bool {
    statement.contains("unnest($") || statement.contains(".id = ANY ($1)")
}

/// The statements whose plans are checked, with their parameter counts.
fn checked_statements() -> Result<Vec<(String, usize)>> {
    let words = ["SELECT", "WITH", "INSERT", "UPDATE", "DELETE"];
    let is_query = |statement: &str| words.iter().any(|word| statement.trim_start().starts_with(word));
    // Who follows events of some types reads past the others once.
    let follows = |statement: &str| statement.contains("pg_snapshot_xmin");
    let mut all = statements()?;
    all.retain(|(statement, _)| is_query(statement) && !follows(statement) && !is_filtered_list(statement));
    Ok(all)
}

/// Fails if a statement has a bad plan. Returns which of these kinds of plan nodes cause none if they are enabled.
async fn check_plans(
    db: &mut PgConnection,
    statements: &[(String, usize)],
    kinds: &[&'static str],
) -> Result<Vec<&'static str>> {
    let bad = bad_plans(db, &DISABLED, statements, usize::MAX).await?;
    ensure!(bad.is_empty(), "{} statements:\n{bad:#?}", bad.len());
    let mut unneeded = Vec::new();
    for kind in kinds {
        let others: Vec<_> = DISABLED.into_iter().filter(|other| other != kind).collect();
        if bad_plans(db, &others, statements, 1).await?.is_empty() {
            unneeded.push(*kind);
        }
    }
    Ok(unneeded)
}

/// At most `limit` statements with problems in their generic plans, with these kinds of plan nodes disabled.
async fn bad_plans(
    db: &mut PgConnection,
    disabled: &[&str],
    statements: &[(String, usize)],
    limit: usize,
) -> Result<BTreeMap<String, Vec<String>>> {
    for kind in DISABLED {
        let value = if disabled.contains(&kind) { "off" } else { "on" };
        sqlx::query(AssertSqlSafe(format!("SET enable_{kind} = {value}"))).execute(&mut *db).await?;
    }
    let indexes = indexes(db).await?;
    let mut bad = BTreeMap::new();
    for (statement, parameters) in statements {
        if bad.len() == limit {
            break;
        }
        let plan = plan(db, statement, *parameters).await?;
        let mut problems = Vec::new();
        collect_problems(&plan, &indexes, &mut problems);
        if !problems.is_empty() {
            bad.insert(statement.clone(), problems);
        }
    }
    Ok(bad)
}

/// The generic plan of a statement with so many parameters.
pub(super) async fn plan(db: &mut PgConnection, statement: &str, parameters: usize) -> Result<Value> {
    sqlx::raw_sql(AssertSqlSafe(format!("PREPARE checked AS {statement}")))
        .execute(&mut *db)
        .await
        .context(statement.to_owned())?;
    let nulls = vec!["NULL"; parameters].join(", ");
    let arguments = if parameters == 0 { String::new() } else { format!("({nulls})") };
    let explain = format!("EXPLAIN (FORMAT JSON) EXECUTE checked{arguments}");
    let mut plan: Value = sqlx::query_scalar(AssertSqlSafe(explain))
        .persistent(false)
        .fetch_one(&mut *db)
        .await
        .context(statement.to_owned())?;
    sqlx::raw_sql("DEALLOCATE checked").execute(&mut *db).await?;
    Ok(plan[0]["Plan"].take())
}

//! `bench scheduler`: the cost of a tick when nothing is due, with few and with very many scheduled invoices; the rate at
//! which many due invoices are collected, compared with the baseline of payments; and the rate at which due cycles of
//! subscriptions are billed.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;
use sqlx::{Connection, PgConnection};
use tokio::time::sleep;

use super::baseline;
use super::report::{Goal, Report, Row};
use crate::{Cluster, ProcessKind, TempDir};

/// Schedulers whose ticks are counted together; each ticks once a second.
const SCHEDULERS: usize = 4;
const FEW: i64 = 10_000;
const MANY: i64 = 1_000_000;
const DUE: i64 = 100_000;
const CYCLES_PER_SECOND: f64 = 2_000.0;
/// The clients of the baseline, as in `bench payments`.
const BASELINE_CLIENTS: usize = 32;
/// How long ticks are counted.
const TICK_DURATION: Duration = Duration::from_secs(10);
/// The ticks that query for due work every second.
const TICKS: [&str; 6] =
    ["operations", "inquiries", "collections", "recurring_invoices", "subscriptions", "payment_links"];

/// Runs the measurements, prints a table and returns the report.
pub(super) async fn run(seconds: u64) -> Result<Report> {
    let directory = TempDir::new()?;
    let cluster = Cluster::builder().api(1).worker(1).scheduler(SCHEDULERS);
    let mut cluster = cluster.durable().env("RUST_LOG", "warn").start().await?;
    let mut db = PgConnection::connect(cluster.database_url()).await?;
    let account = cluster.account_with(&super::NO_LIMIT).await?;
    let account = seed_customers(&mut db, &cluster, &account).await?;

    schedule(&mut db, account, 0, FEW, "1 year").await?;
    let few = tick(&cluster).await?;
    schedule(&mut db, account, FEW, MANY - FEW, "1 year").await?;
    let many = tick(&cluster).await?;
    println!(
        "a tick with nothing due: {:.3} ms with {FEW} scheduled invoices, {:.3} ms with {MANY}; ratio {:.2}",
        few,
        many,
        many / few
    );

    for index in 1..SCHEDULERS {
        cluster.scheduler(index).kill9()?;
    }
    let began = Instant::now();
    schedule(&mut db, account, MANY, DUE, "-1 second").await?;
    println!("inserted {DUE} due invoices in {:.1} s", began.elapsed().as_secs_f64());
    let before = paid(&mut db).await?;
    let began = Instant::now();
    sleep(Duration::from_secs(seconds)).await;
    let collected = (paid(&mut db).await? - before) as f64 / began.elapsed().as_secs_f64();
    // Without a worker, only the collections begin that may be in progress at the same time.
    cluster.worker(0).kill9()?;
    subscribe(&mut db, account).await?;
    let before = billed(&mut db).await?;
    let began = Instant::now();
    sleep(Duration::from_secs(seconds)).await;
    let cycles = (billed(&mut db).await? - before) as f64 / began.elapsed().as_secs_f64();
    println!("billed {cycles:.0} of {DUE} due cycles of subscriptions per second");
    cluster.scheduler(0).kill9()?;
    let baseline = baseline::per_second(cluster.database_url(), directory.path(), BASELINE_CLIENTS, seconds).await?;
    let ratio = collected / baseline;
    println!("collected {collected:.0} of {DUE} due invoices per second; baseline {baseline:.0}/s; ratio {ratio:.2}");
    let row =
        |what: String, ours, baseline, goal| Row { bench: "scheduler", what, ours, baseline: Some(baseline), goal };
    let rows = vec![
        row(format!("ms per tick, {MANY} vs. {FEW} invoices"), many, few, Goal::AtMost(1.5)),
        row("invoices/s collected, vs. pgbench".to_owned(), collected, baseline, Goal::None),
        Row {
            bench: "scheduler",
            what: "cycles/s billed".to_owned(),
            ours: cycles,
            baseline: None,
            goal: Goal::AtLeast(CYCLES_PER_SECOND),
        },
    ];
    let details = json!({
        "bench": "scheduler", "tick_ms_of_10_thousand": few, "tick_ms_of_1_million": many, "tick_ratio": many / few,
        "invoices_per_second": collected, "baseline_per_second": baseline, "ratio": ratio, "cycles_per_second": cycles,
    });
    Ok(Report { rows, details, ..Report::default() })
}

/// Creates customers with a card that approves, and returns the account's id in the database.
async fn seed_customers(db: &mut PgConnection, cluster: &Cluster, account: &crate::Account) -> Result<uuid::Uuid> {
    let api = cluster.client(account)?;
    let customer = api.post("/v1/customers", json!({"email": "ada@example.com"})).await?.body;
    let card = json!({"customerId": customer["id"], "paymentToken": "tok_ok"});
    ensure!(api.post("/v1/payment_methods", card).await?.status == 201, "cannot save a card");
    let id = sqlx::query_scalar("SELECT account_id FROM customers LIMIT 1").fetch_one(&mut *db).await?;
    for statement in [
        "INSERT INTO customers (id, account_id, email, name, created_at)
         SELECT new_ulid(now()), account_id, n || '@example.com', 'ada', now() FROM customers, generate_series(1, 10000) n",
        "INSERT INTO payment_methods (id, account_id, customer_id, provider_account_id, status, provider_ref, brand, last4,
             exp_month, exp_year, created_at)
         SELECT new_ulid(now()), c.account_id, c.id, m.provider_account_id, m.status, m.provider_ref, m.brand, m.last4, m.exp_month,
             m.exp_year, now()
         FROM payment_methods m, customers c WHERE c.default_payment_method_id IS NULL",
        "UPDATE customers c SET default_payment_method_id = m.id FROM payment_methods m
         WHERE m.customer_id = c.id AND c.default_payment_method_id IS NULL",
    ] {
        sqlx::query(statement).execute(&mut *db).await?;
    }
    Ok(id)
}

/// Inserts `count` scheduled invoices, due after `due_in`, spread over all customers.
async fn schedule(db: &mut PgConnection, account: uuid::Uuid, first: i64, count: i64, due_in: &str) -> Result<()> {
    sqlx::query(
        "WITH c AS MATERIALIZED (SELECT id, row_number() OVER () - 1 AS place FROM customers WHERE account_id = $1)
         INSERT INTO invoices (id, account_id, customer_id, status, number, currency, amount, payment_terms, due_at, issued_at,
             collect_at, next_attempt_at, page_token, created_at)
         SELECT new_ulid(now()), $1, c.id, 'scheduled', n + 1, 'USD', 1250, 'due_on_receipt', now(), now(), now() + $4::interval,
             now() + $4::interval + n * interval '1 microsecond', 'bench-' || n, now()
         FROM generate_series($2::bigint, $2 + $3 - 1) n JOIN c ON c.place = n % 10000",
    )
    .bind(account)
    .bind(first)
    .bind(count)
    .bind(due_in)
    .execute(&mut *db)
    .await?;
    sqlx::query("VACUUM ANALYZE invoices, customers, payment_methods").execute(db).await?;
    Ok(())
}

/// Inserts subscriptions whose first cycle is due, spread over all customers.
async fn subscribe(db: &mut PgConnection, account: uuid::Uuid) -> Result<()> {
    // The invoices that were inserted directly have numbers too.
    let counter =
        "INSERT INTO invoice_numbers SELECT account_id, max(number) FROM invoices WHERE account_id = $1 GROUP BY 1
                   ON CONFLICT (account_id) DO UPDATE SET last = excluded.last";
    sqlx::query(counter).bind(account).execute(&mut *db).await?;
    sqlx::query(
        r#"WITH plan AS (
               INSERT INTO plans (id, account_id, name, amount, currency, "interval", interval_count, created_at)
               VALUES (new_ulid(now()), $1, 'Gold', 2900, 'USD', 'month', 1, now()) RETURNING id),
           c AS MATERIALIZED (SELECT id, row_number() OVER () - 1 AS place FROM customers WHERE account_id = $1)
           INSERT INTO subscriptions (id, account_id, customer_id, plan_id, status, timezone, anchor, next_billing_date,
               next_billing_at, created_at)
           SELECT new_ulid(now()), $1, c.id, plan.id, 'scheduled', 'UTC', today, today, today::timestamp AT TIME ZONE 'UTC', now()
           FROM plan, (SELECT (now() AT TIME ZONE 'UTC')::date AS today) t, generate_series(0, $2::bigint - 1) n
           JOIN c ON c.place = n % 10000"#,
    )
    .bind(account)
    .bind(DUE)
    .execute(&mut *db)
    .await?;
    sqlx::query("VACUUM ANALYZE subscriptions").execute(db).await?;
    Ok(())
}

async fn billed(db: &mut PgConnection) -> Result<i64> {
    let billed = "SELECT count(*) FROM invoices WHERE subscription_id IS NOT NULL";
    Ok(sqlx::query_scalar(billed).fetch_one(db).await?)
}

async fn paid(db: &mut PgConnection) -> Result<i64> {
    Ok(sqlx::query_scalar("SELECT count(*) FROM invoices WHERE status = 'paid'").fetch_one(db).await?)
}

/// The average duration in milliseconds of one round of all ticks.
async fn tick(cluster: &Cluster) -> Result<f64> {
    // Wait until the previous inserts and their vacuum no longer affect the measurement.
    sleep(Duration::from_secs(5)).await;
    let before = metrics(cluster).await?;
    sleep(TICK_DURATION).await;
    let after = metrics(cluster).await?;
    let mut milliseconds = 0.0;
    for tick in TICKS {
        let of = |metrics: &str, what: &str| -> f64 {
            let name = format!("scheduler_tick_seconds_{what}{{tick=\"{tick}\"}} ");
            metrics.lines().filter_map(|line| line.strip_prefix(name.as_str())?.parse::<f64>().ok()).sum()
        };
        let ticks = of(&after, "count") - of(&before, "count");
        if ticks > 0.0 {
            milliseconds += (of(&after, "sum") - of(&before, "sum")) / ticks * 1000.0;
        }
    }
    ensure!(milliseconds > 0.0, "no scheduler ticked");
    Ok(milliseconds)
}

/// The metrics of all schedulers.
async fn metrics(cluster: &Cluster) -> Result<String> {
    let mut metrics = String::new();
    for index in 0..SCHEDULERS {
        let url = cluster.metrics_url(ProcessKind::Scheduler, index);
        metrics
            .push_str(&reqwest::get(format!("{url}/metrics")).await.context("cannot read the metrics")?.text().await?);
    }
    Ok(metrics)
}

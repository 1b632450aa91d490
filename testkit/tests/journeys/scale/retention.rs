//! Partitions beyond the retention are dropped under load without errors; while a long transaction reads the table,
//! they stay.

use anyhow::{Context, Result};
use serde_json::json;
use sqlx::{AssertSqlSafe, PgPool};
use testkit::{Client, Cluster, ProcessKind};

use crate::support::{Load, Merchant, copies, created, eventually, ok};

/// Past months with rows.
const MONTHS: i32 = 5;
/// A URL without a listener.
const NOWHERE: &str = "http://127.0.0.1:9/";
const TABLES: [&str; 2] = ["events", "webhook_deliveries"];

/// Copies rows into each past month.
async fn backfill(db: &PgPool) -> Result<()> {
    for table in TABLES {
        let make = "SELECT ensure_monthly_partitions($1::text::regclass, now() - make_interval(months => $2), $2)";
        sqlx::query(make).bind(table).bind(MONTHS).execute(db).await?;
        let rows = format!("(SELECT * FROM {table} LIMIT 10) t, generate_series(1, $1) n");
        let own = "'id', new_ulid(date_trunc('month', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC'
                       - make_interval(months => n) + interval '3 days')";
        sqlx::query(copies(table, &rows, own)).bind(MONTHS).execute(db).await?;
    }
    Ok(())
}

/// The past months that have a partition, with the row count of each.
async fn past_partitions(db: &PgPool, table: &str) -> Result<Vec<(i32, i64)>> {
    let mut partitions = Vec::new();
    for back in 1..=MONTHS {
        let name = format!(
            "SELECT to_regclass('{table}' || to_char(now() AT TIME ZONE 'UTC' - make_interval(months => {back}), '_YYYY_MM'))::text"
        );
        let partition: Option<String> = sqlx::query_scalar(AssertSqlSafe(name)).fetch_one(db).await?;
        if let Some(partition) = partition {
            let count = format!("SELECT count(*) FROM {partition}");
            partitions.push((back, sqlx::query_scalar(AssertSqlSafe(count)).fetch_one(db).await?));
        }
    }
    Ok(partitions)
}

async fn ticks(cluster: &Cluster, outcome: &str) -> Result<f64> {
    let metrics = Client::new(&cluster.metrics_url(ProcessKind::Scheduler, 0))?.get("/metrics").await?;
    let text = String::from_utf8(metrics.bytes)?;
    let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    value(&format!("scheduler_ticks_total{{tick=\"partitions\",outcome=\"{outcome}\"}} ")).context("no metric")
}

#[tokio::test]
async fn old_partitions_are_dropped_under_load_without_errors() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).worker(1).own_postgres().env("RETENTION_MONTHS", "2").start().await?;
    let merchant = Merchant::new(&cluster).await?;
    created(&merchant.api.post("/v1/webhook_endpoints", json!({"url": NOWHERE})).await?);
    created(&merchant.pay(500).await?);
    let db = merchant.books.db.clone();
    eventually("a delivery", async || {
        let made: i64 = sqlx::query_scalar("SELECT count(*) FROM webhook_deliveries").fetch_one(&db).await?;
        Ok((made > 0).then_some(()))
    })
    .await?;
    backfill(&db).await?;
    for table in TABLES {
        let past = past_partitions(&db, table).await?;
        assert!(past.len() == 5 && past.iter().all(|(_, rows)| *rows > 0), "{table}: {past:?}");
    }

    // A long read of the tables, such as a backup.
    let mut reader = db.begin().await?;
    sqlx::query("LOCK TABLE events, webhook_deliveries IN ACCESS SHARE MODE").execute(&mut *reader).await?;
    cluster.add(ProcessKind::Scheduler).await?;
    under_load(&cluster, async || Ok((ticks(&cluster, "failed").await? > 0.0).then_some(()))).await?;
    assert_eq!(past_partitions(&db, "events").await?.len(), 5, "partitions in use are not dropped");
    reader.rollback().await?;

    cluster.scheduler(0).restart().await?;
    under_load(&cluster, async || Ok((ticks(&cluster, "ok").await? > 0.0).then_some(()))).await?;
    for table in TABLES {
        let months: Vec<_> = past_partitions(&db, table).await?.into_iter().map(|(back, _)| back).collect();
        assert_eq!(months, [1, 2], "{table}: exactly two full months are kept");
    }
    assert!(past_partitions(&db, "events").await?.iter().all(|(_, rows)| *rows > 0), "kept partitions keep their rows");
    merchant.books.audit().await
}

/// Creates payments and reads lists, all without an error, until `condition` holds.
async fn under_load(cluster: &Cluster, mut condition: impl AsyncFnMut() -> Result<Option<()>>) -> Result<()> {
    loop {
        let merchant = Merchant::new(cluster).await?;
        created(&merchant.api.post("/v1/webhook_endpoints", json!({"url": NOWHERE})).await?);
        let load = Load::new(&merchant, 4, 10);
        let reading = async {
            for _ in 0..10 {
                ok(&merchant.api.get("/v1/webhook_deliveries?limit=100").await?);
                ok(&merchant.api.get("/v1/payments?limit=100").await?);
            }
            Ok(())
        };
        tokio::try_join!(load.run(), reading)?;
        assert!(!load.had_server_errors(), "no payment failed");
        if condition().await?.is_some() {
            return Ok(());
        }
    }
}

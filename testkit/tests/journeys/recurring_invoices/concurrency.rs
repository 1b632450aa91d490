//! Several schedulers, killed or blocked: each cycle still has exactly one invoice.

use anyhow::{Context, Result};
use sqlx::Row;
use testkit::{Client, Cluster, ProcessKind};

use super::{
    backdate_start, cadence, create_future, day, make, merchant_in, periods, set, starting_in_2090, update,
    wait_for_invoices,
};
use crate::support::{Merchant, concurrently, eventually, id, ok, uuid};

/// Creates `count` recurring invoices that start in 2090.
async fn create_many(merchant: &Merchant, count: usize) -> Result<Vec<String>> {
    let customer = merchant.customer().await?;
    concurrently(count, async |_| id(&make(merchant, starting_in_2090(&customer, cadence("daily", 1))).await?)).await
}

/// Makes all recurring invoices of the cluster due, with this many daily cycles; the last is today's.
async fn make_all_due(merchant: &Merchant, cycles: i32) -> Result<()> {
    sqlx::query(
        "UPDATE recurring_invoices r SET start_date = d.day, anchor = d.day, next_date = d.day,
             next_run_at = d.day::timestamp AT TIME ZONE a.timezone
         FROM accounts a, LATERAL (SELECT (now() AT TIME ZONE a.timezone)::date - $1 + 1 AS day) d WHERE a.id = r.account_id",
    )
    .bind(cycles)
    .execute(&merchant.books.db)
    .await?;
    Ok(())
}

/// The number of invoices of all accounts.
async fn invoice_count(merchant: &Merchant) -> Result<i64> {
    Ok(sqlx::query_scalar("SELECT count(*) FROM invoices").fetch_one(&merchant.books.db).await?)
}

/// Asserts one invoice per day and recurring invoice of the merchant, with numbers without gaps.
async fn assert_each_day_billed_once(merchant: &Merchant, recurring: usize, cycles: i32) -> Result<()> {
    let rows = sqlx::query(
        "SELECT r.occurrence_count, r.next_date::text, count(i.id) AS invoices, count(DISTINCT i.billing_period) AS periods,
             min(i.billing_period), max(i.billing_period)
         FROM recurring_invoices r LEFT JOIN invoices i ON i.recurring_invoice_id = r.id
         WHERE r.account_id = $1 GROUP BY r.id",
    )
    .bind(merchant.books.account)
    .fetch_all(&merchant.books.db)
    .await?;
    assert_eq!(rows.len(), recurring);
    let (first, today) = (day(merchant, 1 - cycles).await?, day(merchant, 0).await?);
    for row in rows {
        for column in ["occurrence_count", "invoices", "periods"] {
            assert_eq!(row.try_get::<i64, _>(column)?, i64::from(cycles), "{column}");
        }
        assert_eq!(row.try_get::<String, _>("min")?, format!("{first}/{first}"));
        assert_eq!(row.try_get::<String, _>("max")?, format!("{today}/{today}"));
        assert_eq!(row.try_get::<String, _>("next_date")?, day(merchant, 1).await?);
    }
    let query = "SELECT min(number), max(number), count(DISTINCT number) FROM invoices WHERE account_id = $1";
    let numbers: (i64, i64, i64) =
        sqlx::query_as(query).bind(merchant.books.account).fetch_one(&merchant.books.db).await?;
    let all = recurring as i64 * i64::from(cycles);
    assert_eq!(numbers, (1, all, all), "numbers without gaps");
    Ok(())
}

#[tokio::test]
async fn many_schedulers_produce_each_invoice_once() -> Result<()> {
    let cluster = Cluster::builder().api(1).scheduler(4).env("DATABASE_POOL", "16").start().await?;
    let merchants = [merchant_in(&cluster).await?, merchant_in(&cluster).await?];
    let mut made = Vec::new();
    for merchant in &merchants {
        made.push(create_many(merchant, 20).await?);
    }
    make_all_due(&merchants[0], 8).await?;
    // Merchants update them concurrently.
    concurrently(40, async |i| {
        let (merchant, recurring) = (&merchants[i % 2], &made[i % 2][i / 2]);
        ok(&update(merchant, recurring, serde_json::json!({"name": format!("Number {i}")})).await?);
        Ok(())
    })
    .await?;
    eventually("all invoices", async || Ok((invoice_count(&merchants[0]).await? == 320).then_some(()))).await?;
    for merchant in &merchants {
        assert_each_day_billed_once(merchant, 20, 8).await?;
    }
    let query = "SELECT count(*) FROM recurring_invoices WHERE name LIKE 'Number %' AND failure_count = 0";
    let named: i64 = sqlx::query_scalar(query).fetch_one(&merchants[0].books.db).await?;
    assert_eq!(named, 40, "no failure and no lost update");
    Ok(())
}

#[tokio::test]
async fn killed_schedulers_leave_no_partial_cycle() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).scheduler(1).start().await?;
    let merchant = merchant_in(&cluster).await?;
    create_many(&merchant, 25).await?;
    make_all_due(&merchant, 12).await?;
    for least in [20, 100, 200] {
        eventually("some invoices", async || Ok((invoice_count(&merchant).await? >= least).then_some(()))).await?;
        cluster.scheduler(0).kill9()?;
        let inconsistent: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM recurring_invoices r WHERE r.occurrence_count <>
                 (SELECT count(*) FROM invoices i WHERE i.recurring_invoice_id = r.id)",
        )
        .fetch_one(&merchant.books.db)
        .await?;
        assert_eq!(inconsistent, 0, "an invoice without its count, or a count without its invoice");
        cluster.scheduler(0).restart().await?;
    }
    eventually("all invoices", async || Ok((invoice_count(&merchant).await? == 300).then_some(()))).await?;
    assert_each_day_billed_once(&merchant, 25, 12).await
}

#[tokio::test]
async fn locked_recurring_invoices_block_no_others_and_show_in_the_lag() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).start().await?;
    let merchant = merchant_in(&cluster).await?;
    let (locked, free) = (create_future(&merchant).await?, create_future(&merchant).await?);
    for (recurring, days) in [(&locked, -3), (&free, -1)] {
        backdate_start(&merchant, recurring, &day(&merchant, days).await?).await?;
        // Only one cycle is due.
        set(&merchant, recurring, "end_date = next_date").await?;
    }
    let mut tx = merchant.books.db.begin().await?;
    let lock = sqlx::query("SELECT FROM recurring_invoices WHERE id = $1 FOR NO KEY UPDATE");
    lock.bind(uuid(&locked)?).execute(&mut *tx).await?;

    cluster.add(ProcessKind::Scheduler).await?;
    wait_for_invoices(&merchant, &free, 1).await?;
    let internal = Client::new(&cluster.metrics_url(ProcessKind::Scheduler, 0))?;
    let age = async || -> Result<f64> {
        let text = String::from_utf8(internal.get("/metrics").await?.bytes)?;
        let metric = "billing_oldest_due_age_seconds{work=\"recurring_invoices\"} ";
        let line = text.lines().find_map(|line| line.strip_prefix(metric)).context("no metric")?;
        Ok(line.parse()?)
    };
    // It has been due for three and a half days: it is about noon.
    let (min, max) = (3.0 * 86_400.0, 4.0 * 86_400.0);
    eventually("the lag of the locked one", async || Ok((min..max).contains(&age().await?).then_some(()))).await?;
    assert!(periods(&merchant, &locked).await?.is_empty());
    tx.rollback().await?;
    wait_for_invoices(&merchant, &locked, 1).await?;
    eventually("no lag", async || Ok((age().await? == 0.0).then_some(()))).await
}

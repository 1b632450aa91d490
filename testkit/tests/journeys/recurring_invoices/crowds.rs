//! Many schedulers, and what happens to them: each cycle has one invoice all the same.

use anyhow::{Context, Result};
use sqlx::Row;
use testkit::{Client, Cluster, Kind};

use super::{cadence, day, dormant, has_produced, make, merchant_of, periods, set, since, sleeper, update};
use crate::support::{Merchant, eventually, id, ok, together, uuid};

/// Makes so many that start far ahead.
async fn many(merchant: &Merchant, count: usize) -> Result<Vec<String>> {
    let customer = merchant.customer().await?;
    together(count, async |_| id(&make(merchant, dormant(&customer, cadence("daily", 1))).await?)).await
}

/// At once all of everyone's have so many cycles to make up for, the last of them today's.
async fn all_fall_due(merchant: &Merchant, cycles: i32) -> Result<()> {
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

/// How many invoices there are, of everyone's.
async fn produced(merchant: &Merchant) -> Result<i64> {
    Ok(sqlx::query_scalar("SELECT count(*) FROM invoices").fetch_one(&merchant.books.db).await?)
}

/// Each of the merchant's has one invoice for each of its last days, and their numbers have no gaps.
async fn each_day_is_billed_once(merchant: &Merchant, recurring: usize, cycles: i32) -> Result<()> {
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
    let cluster = Cluster::builder().api(1).scheduler(4).start().await?;
    let merchants = [merchant_of(&cluster).await?, merchant_of(&cluster).await?];
    let mut made = Vec::new();
    for merchant in &merchants {
        made.push(many(merchant, 20).await?);
    }
    all_fall_due(&merchants[0], 8).await?;
    // Merchants work with them meanwhile, and make invoices of their own.
    together(40, async |i| {
        let (merchant, recurring) = (&merchants[i % 2], &made[i % 2][i / 2]);
        ok(&update(merchant, recurring, serde_json::json!({"name": format!("Number {i}")})).await?);
        Ok(())
    })
    .await?;
    eventually("all of them", async || Ok((produced(&merchants[0]).await? == 320).then_some(()))).await?;
    for merchant in &merchants {
        each_day_is_billed_once(merchant, 20, 8).await?;
    }
    let query = "SELECT count(*) FROM recurring_invoices WHERE name LIKE 'Number %' AND failure_count = 0";
    let named: i64 = sqlx::query_scalar(query).fetch_one(&merchants[0].books.db).await?;
    assert_eq!(named, 40, "nothing failed, and no name was lost");
    Ok(())
}

#[tokio::test]
async fn a_scheduler_that_is_killed_leaves_nothing_half_done() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).scheduler(1).start().await?;
    let merchant = merchant_of(&cluster).await?;
    many(&merchant, 25).await?;
    all_fall_due(&merchant, 12).await?;
    for least in [20, 100, 200] {
        eventually("some of them", async || Ok((produced(&merchant).await? >= least).then_some(()))).await?;
        cluster.scheduler(0).kill9()?;
        let broken: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM recurring_invoices r WHERE r.occurrence_count <>
                 (SELECT count(*) FROM invoices i WHERE i.recurring_invoice_id = r.id)",
        )
        .fetch_one(&merchant.books.db)
        .await?;
        assert_eq!(broken, 0, "an invoice without its count, or a count without its invoice");
        cluster.scheduler(0).restart().await?;
    }
    eventually("all of them", async || Ok((produced(&merchant).await? == 300).then_some(()))).await?;
    each_day_is_billed_once(&merchant, 25, 12).await
}

#[tokio::test]
async fn one_that_is_held_up_holds_up_no_other_and_the_figure_tells() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).start().await?;
    let merchant = merchant_of(&cluster).await?;
    let (held, free) = (sleeper(&merchant).await?, sleeper(&merchant).await?);
    for (recurring, days) in [(&held, -3), (&free, -1)] {
        since(&merchant, recurring, &day(&merchant, days).await?).await?;
        // The next ones are a month away.
        set(&merchant, recurring, "end_date = next_date").await?;
    }
    let mut tx = merchant.books.db.begin().await?;
    let lock = sqlx::query("SELECT FROM recurring_invoices WHERE id = $1 FOR NO KEY UPDATE");
    lock.bind(uuid(&held)?).execute(&mut *tx).await?;

    cluster.add(Kind::Scheduler).await?;
    has_produced(&merchant, &free, 1).await?;
    let internal = Client::new(&cluster.metrics_url(Kind::Scheduler, 0))?;
    let age = async || -> Result<f64> {
        let text = String::from_utf8(internal.get("/metrics").await?.bytes)?;
        let figure = "billing_oldest_due_age_seconds{work=\"recurring_invoices\"} ";
        let line = text.lines().find_map(|line| line.strip_prefix(figure)).context("no figure")?;
        Ok(line.parse()?)
    };
    // It has been due since three midnights ago, and it is noon.
    let (least, most) = (3.0 * 86_400.0, 4.0 * 86_400.0);
    eventually("its age", async || Ok((least..most).contains(&age().await?).then_some(()))).await?;
    assert!(periods(&merchant, &held).await?.is_empty());
    tx.rollback().await?;
    has_produced(&merchant, &held, 1).await?;
    eventually("nothing is due", async || Ok((age().await? == 0.0).then_some(()))).await
}

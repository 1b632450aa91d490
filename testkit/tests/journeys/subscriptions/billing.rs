//! Billing by the scheduler: in order, once per cycle, with several schedulers and despite kills.

use anyhow::{Context, Result};
use serde_json::json;
use testkit::{Client, Cluster, ProcessKind};

use super::{
    create_overdue, current, customer_with_card, cycles_until_now, event_types, invoices, periods, plan,
    set_first_date, subscribe, subscription_body, wait_until_billed,
};
use crate::support::{Merchant, cluster, eventually, id, merchant, uuid, with};

#[tokio::test]
async fn the_scheduler_bills_each_cycle_from_the_anchor() -> Result<()> {
    let merchant = merchant().await?;
    let customer = customer_with_card(&merchant).await?;
    for (interval, step, anchor, zone) in [
        ("month", "1 month", "date '2024-01-31'", "UTC"),
        ("year", "1 year", "date '2016-02-29'", "UTC"),
        ("month", "1 month", "date '2024-08-30'", "America/New_York"),
        ("week", "7 days", "current_date - 40", "Asia/Kolkata"),
    ] {
        let sent = with(subscription_body(&customer, &plan(&merchant, interval).await?), "timezone", zone);
        let made = id(&subscribe(&merchant, with(sent, "startAt", "2199-01-01")).await?)?;
        set_first_date(&merchant, &made, anchor).await?;
        let current = wait_until_billed(&merchant, &made).await?;
        let billed = invoices(&merchant, &made).await?;
        let expected = cycles_until_now(&merchant, &made, step).await?;
        assert!(expected.len() > 5, "{expected:?}");
        assert_eq!(periods(&billed), expected, "{interval} in {zone}, ordered by number");
        let (_, last) = expected.last().context("one")?.split_once('/').context("a period")?;
        let next: String = sqlx::query_scalar(
            "SELECT to_char((($1::text::date + 1)::timestamp AT TIME ZONE $2) AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')",
        )
        .bind(last)
        .bind(zone)
        .fetch_one(&merchant.books.db)
        .await?;
        assert_eq!(
            (&current["nextBillingAt"], &current["currentPeriodEnd"]),
            (&json!(next), &json!(next)),
            "{current}"
        );
        let mut events = vec!["subscription.created"];
        events.resize(expected.len(), "subscription.renewed");
        assert_eq!(event_types(&merchant, &made).await?, events, "the first cycle writes no renewal event");
    }
    Ok(())
}

/// Asserts that each subscription was billed once for each of its days, with invoice numbers without gaps.
async fn assert_all_billed(merchant: &Merchant, all: &[String], days: usize) -> Result<()> {
    for made in all {
        wait_until_billed(merchant, made).await?;
        let billed = invoices(merchant, made).await?;
        let expected = cycles_until_now(merchant, made, "1 day").await?;
        assert!(expected.len() > days, "{} days", expected.len());
        assert_eq!(periods(&billed), expected);
    }
    let gaps = "SELECT n.last - count(i.*) FROM invoice_numbers n JOIN invoices i USING (account_id)
                WHERE n.account_id = $1 GROUP BY n.last";
    let gaps: i64 = sqlx::query_scalar(gaps).bind(merchant.books.account).fetch_one(&merchant.books.db).await?;
    assert_eq!(gaps, 0, "numbers without an invoice");
    Ok(())
}

#[tokio::test]
async fn many_schedulers_bill_each_cycle_once() -> Result<()> {
    let cluster = Cluster::builder().api(1).worker(1).scheduler(3).start().await?;
    let merchant = Merchant::new(&cluster).await?;
    let sent = subscription_body(&customer_with_card(&merchant).await?, &plan(&merchant, "day").await?);
    let mut all = Vec::new();
    for _ in 0..12 {
        all.push(create_overdue(&merchant, sent.clone(), 15).await?);
    }
    assert_all_billed(&merchant, &all, 15).await
}

#[tokio::test]
async fn killed_schedulers_leave_no_partial_cycle() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).worker(1).scheduler(1).start().await?;
    let merchant = Merchant::new(&cluster).await?;
    let sent = subscription_body(&customer_with_card(&merchant).await?, &plan(&merchant, "day").await?);
    let all = [create_overdue(&merchant, sent.clone(), 200).await?, create_overdue(&merchant, sent, 200).await?];
    for count in [1_i64, 100, 250] {
        eventually("some cycles to be billed", async || {
            let query = "SELECT count(*) FROM invoices WHERE account_id = $1";
            let billed: i64 =
                sqlx::query_scalar(query).bind(merchant.books.account).fetch_one(&merchant.books.db).await?;
            Ok((billed >= count).then_some(()))
        })
        .await?;
        cluster.scheduler(0).kill9()?;
        cluster.scheduler(0).restart().await?;
    }
    assert_all_billed(&merchant, &all, 200).await
}

/// A metric of the shared scheduler for subscriptions.
async fn metric(name: &str) -> Result<Option<f64>> {
    let metrics = Client::new(&cluster().await?.metrics_url(ProcessKind::Scheduler, 0))?.get("/metrics").await?;
    let text = String::from_utf8(metrics.bytes)?;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix("{work=\"subscriptions\"} "));
    Ok(value.map(str::parse).transpose()?)
}

#[tokio::test]
async fn failing_subscriptions_do_not_block_others() -> Result<()> {
    let merchant = merchant().await?;
    let sent = subscription_body(&customer_with_card(&merchant).await?, &plan(&merchant, "day").await?);
    let failing = id(&subscribe(&merchant, with(sent.clone(), "startAt", "2199-01-01")).await?)?;
    // Simulates a bug: a time zone that Postgres does not know.
    let write = "UPDATE subscriptions SET timezone = 'Mars/Olympus', anchor = current_date - 9,
                        next_billing_date = current_date - 9, next_billing_at = now() - interval '9 days' WHERE id = $1";
    sqlx::query(write).bind(uuid(&failing)?).execute(&merchant.books.db).await?;
    eventually("the subscription to be deferred", async || {
        let query = "SELECT retry_at > now() + interval '50 minutes' FROM subscriptions WHERE id = $1";
        let is_deferred: Option<bool> =
            sqlx::query_scalar(query).bind(uuid(&failing)?).fetch_one(&merchant.books.db).await?;
        Ok((is_deferred == Some(true)).then_some(()))
    })
    .await?;
    assert!(metric("billing_cycles_failed_total").await?.is_some_and(|count| count >= 1.0));
    let other = create_overdue(&merchant, sent, 3).await?;
    wait_until_billed(&merchant, &other).await?;
    assert_eq!(invoices(&merchant, &other).await?.len(), cycles_until_now(&merchant, &other, "1 day").await?.len());
    assert!(invoices(&merchant, &failing).await?.is_empty());
    let response = current(&merchant, &failing).await?;
    assert_eq!((&response["timezone"], &response["status"]), (&json!("Mars/Olympus"), &json!("scheduled")));

    let repair = "UPDATE subscriptions SET timezone = 'UTC', retry_at = NULL WHERE id = $1";
    sqlx::query(repair).bind(uuid(&failing)?).execute(&merchant.books.db).await?;
    wait_until_billed(&merchant, &failing).await?;
    assert_eq!(periods(&invoices(&merchant, &failing).await?), cycles_until_now(&merchant, &failing, "1 day").await?);
    assert!(metric("billing_oldest_due_age_seconds").await?.is_some(), "the metric is exported");
    Ok(())
}

//! The scheduler bills what is due: in its order, once, however many run and whenever one dies.

use anyhow::{Context, Result};
use serde_json::json;
use testkit::{Client, Cluster, Kind};

use super::{
    begins, caught_up, cycles_until_now, invoices, missed, payer, periods, plan, shown, subscribed, told, wanted,
};
use crate::support::{Merchant, cluster, eventually, id, merchant, uuid, with};

#[tokio::test]
async fn the_scheduler_bills_each_cycle_from_the_anchor() -> Result<()> {
    let merchant = merchant().await?;
    let customer = payer(&merchant).await?;
    for (interval, step, anchor, zone) in [
        ("month", "1 month", "date '2024-01-31'", "UTC"),
        ("year", "1 year", "date '2016-02-29'", "UTC"),
        ("month", "1 month", "date '2024-08-30'", "America/New_York"),
        ("week", "7 days", "current_date - 40", "Asia/Kolkata"),
    ] {
        let sent = with(wanted(&customer, &plan(&merchant, interval).await?), "timezone", zone);
        let made = id(&subscribed(&merchant, with(sent, "startAt", "2199-01-01")).await?)?;
        begins(&merchant, &made, anchor).await?;
        let shown = caught_up(&merchant, &made).await?;
        let billed = invoices(&merchant, &made).await?;
        let expected = cycles_until_now(&merchant, &made, step).await?;
        assert!(expected.len() > 5, "{expected:?}");
        assert_eq!(periods(&billed), expected, "{interval} in {zone}, in the order of their numbers");
        let (_, last) = expected.last().context("one")?.split_once('/').context("a period")?;
        let next: String = sqlx::query_scalar(
            "SELECT to_char((($1::text::date + 1)::timestamp AT TIME ZONE $2) AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')",
        )
        .bind(last)
        .bind(zone)
        .fetch_one(&merchant.books.db)
        .await?;
        assert_eq!((&shown["nextBillingAt"], &shown["currentPeriodEnd"]), (&json!(next), &json!(next)), "{shown}");
        let mut events = vec!["subscription.created"];
        events.resize(expected.len(), "subscription.renewed");
        assert_eq!(told(&merchant, &made).await?, events, "the first cycle is no renewal");
    }
    Ok(())
}

/// Each subscription has been billed for each of its days, once.
async fn all_is_billed(merchant: &Merchant, all: &[String], days: usize) -> Result<()> {
    for made in all {
        caught_up(merchant, made).await?;
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
    let sent = wanted(&payer(&merchant).await?, &plan(&merchant, "day").await?);
    let mut all = Vec::new();
    for _ in 0..12 {
        all.push(missed(&merchant, sent.clone(), 15).await?);
    }
    all_is_billed(&merchant, &all, 15).await
}

#[tokio::test]
async fn a_killed_scheduler_leaves_whole_cycles() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).worker(1).scheduler(1).start().await?;
    let merchant = Merchant::new(&cluster).await?;
    let sent = wanted(&payer(&merchant).await?, &plan(&merchant, "day").await?);
    let all = [missed(&merchant, sent.clone(), 200).await?, missed(&merchant, sent, 200).await?];
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
    all_is_billed(&merchant, &all, 200).await
}

/// A figure of the shared scheduler.
async fn figure(name: &str) -> Result<Option<f64>> {
    let metrics = Client::new(&cluster().await?.metrics_url(Kind::Scheduler, 0))?.get("/metrics").await?;
    let text = String::from_utf8(metrics.bytes)?;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix("{work=\"subscriptions\"} "));
    Ok(value.map(str::parse).transpose()?)
}

#[tokio::test]
async fn one_that_cannot_be_billed_keeps_nobody_waiting() -> Result<()> {
    let merchant = merchant().await?;
    let sent = wanted(&payer(&merchant).await?, &plan(&merchant, "day").await?);
    let broken = id(&subscribed(&merchant, with(sent.clone(), "startAt", "2199-01-01")).await?)?;
    // What can only come of a mistake: a zone that this machine does not know.
    let write = "UPDATE subscriptions SET timezone = 'Mars/Olympus', anchor = current_date - 9,
                        next_billing_date = current_date - 9, next_billing_at = now() - interval '9 days' WHERE id = $1";
    sqlx::query(write).bind(uuid(&broken)?).execute(&merchant.books.db).await?;
    eventually("it to be put off", async || {
        let query = "SELECT retry_at > now() + interval '50 minutes' FROM subscriptions WHERE id = $1";
        let is_put_off: Option<bool> =
            sqlx::query_scalar(query).bind(uuid(&broken)?).fetch_one(&merchant.books.db).await?;
        Ok((is_put_off == Some(true)).then_some(()))
    })
    .await?;
    assert!(figure("billing_cycles_failed_total").await?.is_some_and(|count| count >= 1.0));
    let other = missed(&merchant, sent, 3).await?;
    caught_up(&merchant, &other).await?;
    assert_eq!(invoices(&merchant, &other).await?.len(), cycles_until_now(&merchant, &other, "1 day").await?.len());
    assert!(invoices(&merchant, &broken).await?.is_empty());
    let answer = shown(&merchant, &broken).await?;
    assert_eq!((&answer["timezone"], &answer["status"]), (&json!("Mars/Olympus"), &json!("scheduled")));

    let mend = "UPDATE subscriptions SET timezone = 'UTC', retry_at = NULL WHERE id = $1";
    sqlx::query(mend).bind(uuid(&broken)?).execute(&merchant.books.db).await?;
    caught_up(&merchant, &broken).await?;
    assert_eq!(periods(&invoices(&merchant, &broken).await?), cycles_until_now(&merchant, &broken, "1 day").await?);
    assert!(figure("billing_oldest_due_age_seconds").await?.is_some(), "the figure is there");
    Ok(())
}

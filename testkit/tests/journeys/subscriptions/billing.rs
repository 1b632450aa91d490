//! Billing by the scheduler, in order. Concurrent and interrupted runs are tested with the engine.

use anyhow::{Context, Result};
use serde_json::json;
use testkit::{Client, ProcessKind};

use super::{
    create_overdue, current, customer_with_card, cycles_until_now, event_types, invoices, periods, plan,
    set_first_date, subscribe, subscription_body, wait_until_billed,
};
use crate::support::{cluster, eventually, id, merchant, uuid, with};

#[tokio::test]
async fn the_scheduler_bills_each_cycle_from_the_anchor() -> Result<()> {
    let merchant = merchant().await?;
    let customer = customer_with_card(&merchant).await?;
    for (interval, step, anchor, zone) in
        [("year", "1 year", "date '2016-02-29'", "UTC"), ("week", "7 days", "current_date - 40", "Asia/Kolkata")]
    {
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

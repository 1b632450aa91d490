//! Concurrent and interrupted runs: each cycle has exactly one invoice.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::future::join_all;

use super::{BATCH, Shop, at};
use crate::run_due_subscriptions;
use domain::accounts::Scope;
use domain::plans::Interval;
use domain::subscriptions::{self, Status, Subscription};

/// The periods of this many daily cycles from 1 January 2026.
fn days(count: i64) -> Vec<String> {
    let first: foundation::calendar::Date = "2026-01-01".parse().expect("a day");
    let day = |n| first.plus_days(n).expect("a day").to_string();
    (0..count).map(|n| format!("{}/{}", day(n), day(n))).collect()
}

async fn daily(shop: &Shop, count: usize) -> Vec<Subscription> {
    let mut subscriptions = Vec::new();
    for _ in 0..count {
        subscriptions.push(shop.subscribed(Interval::Day, "2026-01-01", "2025-12-31T12:00:00Z").await);
    }
    subscriptions
}

#[tokio::test]
async fn missed_cycles_are_billed_in_order_after_an_outage() {
    let shop = Shop::open().await;
    let all = daily(&shop, 5).await;
    let cancelled = shop.cancel(&all[4], "2025-12-31T13:00:00Z").await;
    assert_eq!(shop.run("2026-02-09T12:00:00Z").await, 4 * 40);
    for subscription in &all[..4] {
        assert_eq!(shop.periods(subscription.id).await, days(40), "in the order of their numbers");
        let stored = shop.stored(subscription.id).await;
        assert_eq!(stored.next_billing_at, Some(at("2026-02-10T00:00:00Z")));
        let mut events = vec!["subscription.created"];
        events.resize(40, "subscription.renewed");
        assert_eq!(shop.events(subscription.id).await, events);
    }
    assert!(shop.periods(cancelled.id).await.is_empty());
    assert_eq!(shop.run("2026-02-09T23:59:59Z").await, 0, "a second run finds nothing");
}

#[tokio::test]
async fn the_events_of_an_invoice_are_in_the_order_of_its_versions() {
    let shop = Shop::open().await;
    daily(&shop, 40).await;
    assert_eq!(shop.run("2026-01-01T00:00:00Z").await, 40);
    let query = "SELECT payload::json #>> '{data,object,id}', (payload::json #>> '{data,object,version}')::bigint
                 FROM events WHERE type IN ('invoice.issued', 'invoice.scheduled') ORDER BY xact, id";
    let events: Vec<(String, i64)> = sqlx::query_as(query).fetch_all(&*shop.db).await.expect("events");
    assert_eq!(events.len(), 80);
    let mut versions = HashMap::new();
    for (invoice, version) in events {
        let earlier = versions.insert(invoice, version);
        assert!(earlier.is_none_or(|earlier| earlier < version), "{version} after {earlier:?}");
    }
}

#[tokio::test]
async fn invoices_take_amounts_from_the_plan_and_dates_from_issuing() {
    let shop = Shop::open().await;
    let subscription = shop.subscribed(Interval::Day, "2026-01-01", "2025-12-31T12:00:00Z").await;
    shop.run("2026-01-02T09:00:00Z").await;
    for (column, expected) in [
        ("amount", "2900"),
        ("currency", "USD"),
        ("description", "Gold"),
        ("items -> 0 ->> 'description'", "Gold"),
        ("items -> 0 ->> 'quantity'", "1"),
        ("items -> 0 ->> 'unitAmount'", "2900"),
        ("jsonb_array_length(items)", "1"),
        ("payment_terms", "due_on_receipt"),
        ("issued_at = '2026-01-02T09:00:00Z' AND due_at = issued_at AND collect_at = issued_at", "true"),
        ("status", "scheduled"),
        ("next_attempt_at = collect_at", "true"),
    ] {
        assert_eq!(shop.invoice_column(subscription.id, &format!("({column})")).await, [expected; 2], "{column}");
    }
}

#[tokio::test]
async fn concurrent_runs_bill_each_cycle_once() {
    let shop = Shop::open().await;
    let all = daily(&shop, 8).await;
    join_all((0..8).map(|_| shop.run("2026-01-10T00:00:00Z"))).await;
    // A run may return early because another process holds the remaining cycles, which then completes them.
    assert_eq!(shop.run("2026-01-10T00:00:00Z").await, 0);
    for subscription in all {
        assert_eq!(shop.periods(subscription.id).await, days(10));
    }
    // A run for one account waits for locks, so nothing is due after it.
    let now = at("2026-01-20T00:00:00Z");
    let account = Scope::Account(shop.caller.account_id, now);
    join_all((0..4).map(|_| async {
        while run_due_subscriptions(&shop.db, account, BATCH).await.expect("a run") > 0 {}
        assert!(subscriptions::next_due(&shop.db, shop.caller.account_id).await.expect("read") > Some(now));
    }))
    .await;
}

#[tokio::test]
async fn interrupted_runs_leave_whole_cycles() {
    let shop = Shop::open().await;
    let all = daily(&shop, 3).await;
    for pause in 0..40 {
        // A dropped future stops at any await point, like a killed process.
        let _ = tokio::time::timeout(Duration::from_millis(pause), shop.run("2026-03-01T00:00:00Z")).await;
    }
    // A run for one account waits for the locks of the last dropped one.
    let account = Scope::Account(shop.caller.account_id, at("2026-03-01T00:00:00Z"));
    while run_due_subscriptions(&shop.db, account, BATCH).await.expect("a run") > 0 {}
    for subscription in all {
        assert_eq!(shop.periods(subscription.id).await, days(60));
    }
    let numbers: i64 = sqlx::query_scalar("SELECT last - (SELECT count(*) FROM invoices) FROM invoice_numbers")
        .fetch_one(&*shop.db)
        .await
        .expect("numbers");
    assert_eq!(numbers, 0, "invoice numbers have no gaps");
}

#[tokio::test]
async fn cancellation_during_a_run_stops_billing() {
    let shop = Shop::open().await;
    let all = daily(&shop, 6).await;
    let running = join_all((0..3).map(|_| shop.run("2026-02-10T00:00:00Z")));
    let cancelling = join_all(all.iter().flat_map(|subscription| [subscription, subscription]).enumerate().map(
        async |(i, subscription)| {
            tokio::time::sleep(Duration::from_millis(20 * i as u64)).await;
            shop.cancel(subscription, "2026-02-10T00:00:00Z").await
        },
    ));
    let (_, cancelled) = tokio::join!(running, cancelling);
    for pair in cancelled.chunks(2) {
        let stored = shop.stored(pair[0].id).await;
        for response in pair {
            assert_eq!(format!("{response:?}"), format!("{stored:?}"), "a second cancellation changes nothing");
        }
        assert_eq!((stored.status, stored.next_billing_at), (Status::Cancelled, None));
        let periods = shop.periods(stored.id).await;
        assert_eq!(periods, days(i64::try_from(periods.len()).expect("few")));
        assert_eq!(shop.invoice_column(stored.id, "status").await, vec!["open"; periods.len()], "none is collected");
        let ends = shop.events(stored.id).await.iter().filter(|kind| *kind == "subscription.cancelled").count();
        assert_eq!(ends, 1);
    }
    assert_eq!(shop.run("2027-01-01T00:00:00Z").await, 0);
}

#[tokio::test]
async fn unbillable_subscriptions_are_deferred_without_blocking_others() {
    let shop = Shop::open().await;
    let all = daily(&shop, 5).await;
    let broken = all[0].id;
    shop.write("UPDATE subscriptions SET timezone = 'Mars/Olympus' WHERE id = $1", broken.uuid()).await;
    assert_eq!(shop.run("2026-01-01T00:00:00Z").await, 5, "four billed, one deferred");
    for subscription in &all[1..] {
        assert_eq!(shop.periods(subscription.id).await, days(1));
    }
    let stored = shop.stored(broken).await;
    assert!(shop.periods(broken).await.is_empty());
    assert_eq!(stored.retry_at, Some(at("2026-01-01T01:00:00Z")));
    assert_eq!(stored.next_billing_at, Some(at("2026-01-01T00:00:00Z")), "the billing time is unchanged");
    let next = subscriptions::next_due(&shop.db, shop.caller.account_id).await.expect("read");
    assert_eq!(next, Some(at("2026-01-01T01:00:00Z")));
    assert_eq!(shop.run("2026-01-01T00:59:59Z").await, 0, "not retried every second");
    assert_eq!(shop.run("2026-01-01T01:00:00Z").await, 1, "but every hour");
    shop.write("UPDATE subscriptions SET timezone = 'UTC' WHERE id = $1", broken.uuid()).await;
    shop.run("2026-01-02T00:00:00Z").await;
    assert_eq!(shop.periods(broken).await, days(2), "once fixed, all missed cycles are billed");
    assert_eq!(shop.stored(broken).await.retry_at, None);
}

#[tokio::test]
async fn cycles_of_a_batch_are_billed_together_with_consecutive_numbers_although_one_is_rejected() {
    const SUBSCRIPTIONS: usize = 40;
    let shop = Shop::open().await;
    let all = daily(&shop, SUBSCRIPTIONS).await;
    let refuse = "ALTER TABLE invoices ADD CONSTRAINT refused CHECK (description <> 'refused') NOT VALID";
    sqlx::query(refuse).execute(&*shop.db).await.expect("a constraint");
    shop.write("UPDATE subscriptions SET description = 'refused' WHERE id = $1", all[7].id.uuid()).await;
    let now = Scope::AllAccounts(at("2026-01-01T00:00:00Z"));
    let run = async |limit| run_due_subscriptions(&shop.db, now, limit).await.expect("a run");
    // Two schedulers, of which each claims a part.
    let (one, other) = tokio::join!(run(20), run(20));
    assert_eq!((one + other, run(20).await), (SUBSCRIPTIONS, 0));
    for subscription in &all {
        assert_eq!(shop.periods(subscription.id).await, days(i64::from(subscription.id != all[7].id)));
    }
    assert_eq!(shop.stored(all[7].id).await.retry_at, Some(at("2026-01-01T01:00:00Z")));
    let batches = "(SELECT max(number) - min(number) + 1 - count(*) AS gaps
                    FROM (SELECT xact, right(payload::json #>> '{data,object,number}', 6)::int AS number
                          FROM events WHERE type = 'invoice.issued') issued
                    GROUP BY xact) AS batches";
    assert_eq!(shop.count(batches).await, 2, "a transaction per batch");
    assert_eq!(shop.count(&format!("{batches} WHERE gaps <> 0")).await, 0, "consecutive numbers in each");
    assert_eq!(shop.count("invoices WHERE number > 39").await, 0);
    assert_eq!(shop.count("invoice_numbers WHERE last = 39").await, 1);
    assert_eq!(shop.count("events WHERE type IN ('invoice.issued', 'invoice.scheduled')").await, 2 * 39);
}

#[tokio::test]
async fn accounts_with_an_advancing_clock_are_left_to_the_advance() {
    let shop = Shop::open().await;
    let (subscription, other) = (daily(&shop, 1).await.remove(0), Shop::open().await);
    let account = shop.caller.account_id;
    let advancing = "INSERT INTO test_clocks (account_id, frozen_at, target, next_push_at) VALUES ($1, '2026-01-02T00:00:00Z', '2026-02-01T00:00:00Z', 'infinity')";
    shop.write(advancing, account.uuid()).await;
    assert_eq!(shop.run("2026-01-05T00:00:00Z").await, 0);
    let oldest = subscriptions::oldest_due_seconds(&shop.db, at("2026-01-05T00:00:00Z")).await.expect("read");
    assert!(oldest == 0.0, "it does not count as late");
    assert_eq!(subscriptions::next_due(&shop.db, account).await.expect("read"), Some(at("2026-01-01T00:00:00Z")));
    let now = at("2026-01-02T00:00:00Z");
    let refused = run_due_subscriptions(&shop.db, Scope::Account(account, now), BATCH).await.expect("a run");
    assert_eq!(refused, 0, "only the advance bills it");
    for expected in [1, 1, 0] {
        let billed = run_due_subscriptions(&shop.db, Scope::Advance(account, now), BATCH).await.expect("a run");
        assert_eq!(billed, expected);
    }
    assert_eq!(shop.periods(subscription.id).await, days(2));
    assert_eq!(shop.invoice_column(subscription.id, "issued_at = '2026-01-02T00:00:00Z'").await, ["true"; 2]);
    let billed = run_due_subscriptions(&shop.db, Scope::Account(other.caller.account_id, now), BATCH).await;
    assert_eq!(billed.expect("a run"), 0, "another account has nothing to do");

    let ahead = "UPDATE test_clocks SET frozen_at = NULL, target = NULL, next_push_at = NULL, ahead_us = 3600000000 WHERE account_id = $1";
    shop.write(ahead, account.uuid()).await;
    assert_eq!(shop.run("2026-01-03T00:00:00Z").await, 1);
    let issued = shop.invoice_column(subscription.id, "issued_at = '2026-01-03T01:00:00Z'").await;
    assert_eq!(issued, ["false", "false", "true"], "by the account's clock");
}

#[tokio::test]
async fn oldest_due_seconds_is_the_wait_of_the_oldest() {
    let shop = Shop::open().await;
    daily(&shop, 2).await;
    for (now, expected) in [("2025-12-31T23:00:00Z", 0.0), ("2026-01-01T00:01:00Z", 60.0)] {
        let oldest = subscriptions::oldest_due_seconds(&shop.db, at(now)).await.expect("read");
        assert!((oldest - expected).abs() < 0.001, "{now}: {oldest}");
    }
}

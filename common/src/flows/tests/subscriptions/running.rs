//! Whoever bills, however many, and wherever they stop: each cycle has one invoice.

use std::time::Duration;

use futures_util::future::join_all;

use super::{BATCH, Shop, at};
use crate::accounts::Scope;
use crate::flows::run_due_subscriptions;
use crate::plans::Interval;
use crate::subscriptions::{self, Status, Subscription};

/// The dates of so many daily cycles from 1 January 2026 on, as periods.
fn days(count: i64) -> Vec<String> {
    let first: crate::calendar::Date = "2026-01-01".parse().expect("a day");
    let day = |n| first.plus_days(n).expect("a day").to_string();
    (0..count).map(|n| format!("{}/{}", day(n), day(n))).collect()
}

async fn daily(shop: &Shop, count: usize) -> Vec<Subscription> {
    let mut made = Vec::new();
    for _ in 0..count {
        made.push(shop.subscribed(Interval::Day, "2026-01-01", "2025-12-31T12:00:00Z").await);
    }
    made
}

#[tokio::test]
async fn after_an_outage_each_missed_cycle_is_billed_in_its_order() {
    let shop = Shop::open().await;
    let all = daily(&shop, 5).await;
    let cancelled = shop.cancel(&all[4], "2025-12-31T13:00:00Z").await;
    assert_eq!(shop.run("2026-02-09T12:00:00Z").await, 4 * 40);
    for made in &all[..4] {
        assert_eq!(shop.periods(made.id).await, days(40), "in the order of their numbers");
        let shown = shop.shown(made.id).await;
        assert_eq!(shown.next_billing_at, Some(at("2026-02-10T00:00:00Z")));
        let mut events = vec!["subscription.created"];
        events.resize(40, "subscription.renewed");
        assert_eq!(shop.events(made.id).await, events);
    }
    assert!(shop.periods(cancelled.id).await.is_empty());
    assert_eq!(shop.run("2026-02-09T23:59:59Z").await, 0, "a second run finds nothing");
}

#[tokio::test]
async fn an_invoice_is_of_the_plan_and_of_the_moment_it_is_issued() {
    let shop = Shop::open().await;
    let made = shop.subscribed(Interval::Day, "2026-01-01", "2025-12-31T12:00:00Z").await;
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
        assert_eq!(shop.of_invoices(made.id, &format!("({column})")).await, [expected; 2], "{column}");
    }
}

#[tokio::test]
async fn many_that_run_at_once_bill_each_cycle_once() {
    let shop = Shop::open().await;
    let all = daily(&shop, 8).await;
    join_all((0..8).map(|_| shop.run("2026-01-10T00:00:00Z"))).await;
    // Whoever finds nothing left may leave something to another, and that one goes on.
    assert_eq!(shop.run("2026-01-10T00:00:00Z").await, 0);
    for made in all {
        assert_eq!(shop.periods(made.id).await, days(10));
    }
    // One account's work waits for whoever is at it, and leaves nothing.
    let now = at("2026-01-20T00:00:00Z");
    let account = Scope::Account(shop.caller.account_id, now);
    join_all((0..4).map(|_| async {
        while run_due_subscriptions(&shop.db, account, BATCH).await.expect("a run") > 0 {}
        assert!(subscriptions::next_due(&shop.db, shop.caller.account_id).await.expect("asked") > Some(now));
    }))
    .await;
}

#[tokio::test]
async fn whoever_stops_in_the_middle_leaves_whole_cycles() {
    let shop = Shop::open().await;
    let all = daily(&shop, 3).await;
    for pause in 0..40 {
        // A future that is dropped stops wherever it is, as a process that is killed does.
        let _ = tokio::time::timeout(Duration::from_millis(pause), shop.run("2026-03-01T00:00:00Z")).await;
    }
    shop.run("2026-03-01T00:00:00Z").await;
    for made in all {
        assert_eq!(shop.periods(made.id).await, days(60));
    }
    let numbers: i64 = sqlx::query_scalar("SELECT last - (SELECT count(*) FROM invoices) FROM invoice_numbers")
        .fetch_one(&*shop.db)
        .await
        .expect("numbers");
    assert_eq!(numbers, 0, "and no gap in the numbers");
}

#[tokio::test]
async fn cancelled_in_the_middle_it_is_billed_no_more() {
    let shop = Shop::open().await;
    let all = daily(&shop, 6).await;
    let running = join_all((0..3).map(|_| shop.run("2026-02-10T00:00:00Z")));
    let cancelling = join_all(all.iter().flat_map(|made| [made, made]).enumerate().map(async |(i, made)| {
        tokio::time::sleep(Duration::from_millis(20 * i as u64)).await;
        shop.cancel(made, "2026-02-10T00:00:00Z").await
    }));
    let (_, cancelled) = tokio::join!(running, cancelling);
    for pair in cancelled.chunks(2) {
        let shown = shop.shown(pair[0].id).await;
        for answered in pair {
            assert_eq!(format!("{answered:?}"), format!("{shown:?}"), "nothing changes after the first");
        }
        assert_eq!((shown.status, shown.next_billing_at), (Status::Cancelled, None));
        let periods = shop.periods(shown.id).await;
        assert_eq!(periods, days(i64::try_from(periods.len()).expect("few")));
        assert_eq!(shop.of_invoices(shown.id, "status").await, vec!["open"; periods.len()], "none is collected");
        let ends = shop.events(shown.id).await.iter().filter(|kind| *kind == "subscription.cancelled").count();
        assert_eq!(ends, 1);
    }
    assert_eq!(shop.run("2027-01-01T00:00:00Z").await, 0);
}

#[tokio::test]
async fn one_that_cannot_be_billed_is_put_off_and_keeps_nobody_waiting() {
    let shop = Shop::open().await;
    let all = daily(&shop, 5).await;
    let broken = all[0].id;
    shop.write("UPDATE subscriptions SET timezone = 'Mars/Olympus' WHERE id = $1", broken.uuid()).await;
    assert_eq!(shop.run("2026-01-01T00:00:00Z").await, 5, "four were billed, one put off");
    for made in &all[1..] {
        assert_eq!(shop.periods(made.id).await, days(1));
    }
    let shown = shop.shown(broken).await;
    assert!(shop.periods(broken).await.is_empty());
    assert_eq!(shown.retry_at, Some(at("2026-01-01T01:00:00Z")));
    assert_eq!(shown.next_billing_at, Some(at("2026-01-01T00:00:00Z")), "what is shown stays as it was");
    let next = subscriptions::next_due(&shop.db, shop.caller.account_id).await.expect("asked");
    assert_eq!(next, Some(at("2026-01-01T01:00:00Z")));
    assert_eq!(shop.run("2026-01-01T00:59:59Z").await, 0, "it is not tried each second");
    assert_eq!(shop.run("2026-01-01T01:00:00Z").await, 1, "but each hour");
    shop.write("UPDATE subscriptions SET timezone = 'UTC' WHERE id = $1", broken.uuid()).await;
    shop.run("2026-01-02T00:00:00Z").await;
    assert_eq!(shop.periods(broken).await, days(2), "once it is mended, all is made up for");
    assert_eq!(shop.shown(broken).await.retry_at, None);
}

#[tokio::test]
async fn whose_clock_is_being_advanced_is_left_to_whoever_does_it() {
    let shop = Shop::open().await;
    let (made, other) = (daily(&shop, 1).await.remove(0), Shop::open().await);
    let account = shop.caller.account_id;
    let advancing = "INSERT INTO test_clocks (account_id, frozen_at, target, next_push_at) VALUES ($1, '2026-01-02T00:00:00Z', '2026-02-01T00:00:00Z', 'infinity')";
    shop.write(advancing, account.uuid()).await;
    assert_eq!(shop.run("2026-01-05T00:00:00Z").await, 0);
    let oldest = subscriptions::oldest_due_seconds(&shop.db, at("2026-01-05T00:00:00Z")).await.expect("asked");
    assert!(oldest == 0.0, "nobody is late with it");
    assert_eq!(subscriptions::next_due(&shop.db, account).await.expect("asked"), Some(at("2026-01-01T00:00:00Z")));
    let now = at("2026-01-02T00:00:00Z");
    let refused = run_due_subscriptions(&shop.db, Scope::Account(account, now), BATCH).await.expect("a run");
    assert_eq!(refused, 0, "nobody else does");
    for expected in [1, 1, 0] {
        let billed = run_due_subscriptions(&shop.db, Scope::Advance(account, now), BATCH).await.expect("a run");
        assert_eq!(billed, expected);
    }
    assert_eq!(shop.periods(made.id).await, days(2));
    assert_eq!(shop.of_invoices(made.id, "issued_at = '2026-01-02T00:00:00Z'").await, ["true"; 2]);
    let billed = run_due_subscriptions(&shop.db, Scope::Account(other.caller.account_id, now), BATCH).await;
    assert_eq!(billed.expect("a run"), 0, "another account has nothing to do");

    let ahead = "UPDATE test_clocks SET frozen_at = NULL, target = NULL, next_push_at = NULL, ahead_us = 3600000000 WHERE account_id = $1";
    shop.write(ahead, account.uuid()).await;
    assert_eq!(shop.run("2026-01-03T00:00:00Z").await, 1);
    let issued = shop.of_invoices(made.id, "issued_at = '2026-01-03T01:00:00Z'").await;
    assert_eq!(issued, ["false", "false", "true"], "by the account's own clock");
}

#[tokio::test]
async fn the_figure_tells_for_how_long_the_oldest_has_waited() {
    let shop = Shop::open().await;
    daily(&shop, 2).await;
    for (now, expected) in [("2025-12-31T23:00:00Z", 0.0), ("2026-01-01T00:01:00Z", 60.0)] {
        let oldest = subscriptions::oldest_due_seconds(&shop.db, at(now)).await.expect("asked");
        assert!((oldest - expected).abs() < 0.001, "{now}: {oldest}");
    }
}

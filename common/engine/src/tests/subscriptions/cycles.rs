//! Which cycles are billed, and when they begin.

use super::{Shop, at};
use domain::plans::Interval;
use domain::subscriptions::{Status, Subscription};
use foundation::error::Error;

/// The period and the next billing time.
fn instants(subscription: &Subscription) -> [Option<String>; 3] {
    [subscription.current_period_start, subscription.current_period_end, subscription.next_billing_at]
        .map(|instant| instant.map(|instant| instant.to_string()))
}

fn some(instants: [&str; 3]) -> [Option<String>; 3] {
    instants.map(|instant| Some(at(instant).to_string()))
}

#[tokio::test]
async fn cycles_that_begin_today_are_billed_immediately() {
    let shop = Shop::open().await;
    let plan = shop.plan(Interval::Month, 1).await;
    let now = "2026-01-31T10:00:00Z";
    for start_at in [None, Some("2026-01-31")] {
        let subscription = shop.subscribe(&plan, start_at, "UTC", now).await.expect("created");
        assert_eq!((subscription.status, subscription.anchor.to_string().as_str()), (Status::Active, "2026-01-31"));
        let expected = some(["2026-01-31T00:00:00Z", "2026-02-28T00:00:00Z", "2026-02-28T00:00:00Z"]);
        assert_eq!(instants(&subscription), expected);
        assert_eq!(
            format!("{:?}", shop.stored(subscription.id).await),
            format!("{subscription:?}"),
            "the returned state is the stored one"
        );
        assert_eq!(shop.periods(subscription.id).await, ["2026-01-31/2026-02-27"]);
        assert_eq!(shop.invoice_column(subscription.id, "status").await, ["scheduled"]);
        assert_eq!(shop.invoice_column(subscription.id, "next_attempt_at = '2026-01-31T10:00:00Z'").await, ["true"]);
        assert_eq!(shop.events(subscription.id).await, ["subscription.created"]);
    }
    assert_eq!(shop.run("2026-02-27T23:59:59.999999Z").await, 0, "nothing else is due");
}

#[tokio::test]
async fn cycle_dates_are_computed_from_the_anchor() {
    let shop = Shop::open().await;
    let monthly = shop.subscribed(Interval::Month, "2026-01-31", "2026-01-31T10:00:00Z").await;
    let leap = shop.subscribed(Interval::Year, "2024-02-29", "2024-02-29T10:00:00Z").await;
    let plan = shop.plan(Interval::Week, 2).await;
    let weekly = shop.subscribe(&plan, Some("2026-02-20"), "UTC", "2026-02-01T00:00:00Z").await.expect("created");
    shop.run("2028-02-29T00:00:00Z").await;
    let periods = shop.periods(monthly.id).await;
    let first = [
        "2026-01-31/2026-02-27",
        "2026-02-28/2026-03-30",
        "2026-03-31/2026-04-29",
        "2026-04-30/2026-05-30",
        "2026-05-31/2026-06-29",
    ];
    assert_eq!(periods[..5], first, "a short month does not shift later ones");
    assert_eq!(periods.last().map(String::as_str), Some("2028-02-29/2028-03-30"));
    assert_eq!(periods.len(), 26);
    let years = ["2024-02-29/2025-02-27", "2025-02-28/2026-02-27", "2026-02-28/2027-02-27", "2027-02-28/2028-02-28"];
    let periods = shop.periods(leap.id).await;
    assert_eq!(periods[..4], years);
    assert_eq!(periods[4..], ["2028-02-29/2029-02-27"]);
    assert_eq!(shop.periods(weekly.id).await[..2], ["2026-02-20/2026-03-05", "2026-03-06/2026-03-19"]);
}

#[tokio::test]
async fn past_starts_anchor_the_dates_without_backlog() {
    let shop = Shop::open().await;
    let plan = shop.plan(Interval::Month, 1).await;
    let subscription = shop.subscribe(&plan, Some("2025-10-31"), "UTC", "2026-02-10T12:00:00Z").await.expect("created");
    assert_eq!((subscription.status, subscription.anchor.to_string().as_str()), (Status::Scheduled, "2025-10-31"));
    assert_eq!(instants(&subscription), [None, None, Some("2026-02-28T00:00:00.000Z".to_owned())]);
    assert_eq!(shop.run("2026-02-27T23:59:59Z").await, 0, "there is no backlog");
    assert_eq!(shop.run("2026-02-28T00:00:00Z").await, 1);
    assert_eq!(shop.stored(subscription.id).await.status, Status::Active);
    assert_eq!(shop.events(subscription.id).await, ["subscription.created"], "the first cycle is not a renewal");
    shop.run("2026-03-31T00:00:00Z").await;
    assert_eq!(shop.periods(subscription.id).await, ["2026-02-28/2026-03-30", "2026-03-31/2026-04-29"]);
    assert_eq!(shop.events(subscription.id).await, ["subscription.created", "subscription.renewed"]);
    // A cycle that begins today is billed today.
    let subscription = shop.subscribe(&plan, Some("2025-10-31"), "UTC", "2026-02-28T23:00:00Z").await.expect("created");
    assert_eq!(subscription.status, Status::Active);
    assert_eq!(shop.periods(subscription.id).await, ["2026-02-28/2026-03-30"]);
}

#[tokio::test]
async fn future_starts_are_billed_when_they_come() {
    let shop = Shop::open().await;
    let plan = shop.plan(Interval::Month, 3).await;
    let subscription = shop.subscribe(&plan, Some("2026-03-15"), "UTC", "2026-03-14T23:59:59Z").await.expect("created");
    assert_eq!(subscription.status, Status::Scheduled);
    assert_eq!(instants(&subscription), [None, None, Some("2026-03-15T00:00:00.000Z".to_owned())]);
    assert!(shop.periods(subscription.id).await.is_empty());
    assert_eq!(shop.run("2026-03-15T00:00:00Z").await, 1);
    let billed = shop.stored(subscription.id).await;
    let expected = some(["2026-03-15T00:00:00Z", "2026-06-15T00:00:00Z", "2026-06-15T00:00:00Z"]);
    assert_eq!(instants(&billed), expected);
    assert_eq!(shop.periods(subscription.id).await, ["2026-03-15/2026-06-14"]);
}

#[tokio::test]
async fn days_begin_in_the_subscriptions_time_zone() {
    let shop = Shop::open().await;
    let plan = shop.plan(Interval::Month, 1).await;
    // In New York it is still the evening of the 31st.
    let subscription = shop.subscribe(&plan, None, "America/New_York", "2026-02-01T04:30:00Z").await.expect("created");
    assert_eq!(subscription.anchor.to_string(), "2026-01-31");
    let expected = some(["2026-01-31T05:00:00Z", "2026-02-28T05:00:00Z", "2026-02-28T05:00:00Z"]);
    assert_eq!(instants(&subscription), expected);
    assert_eq!(shop.run("2026-03-31T03:59:59Z").await, 1, "the 28th, and not yet the 31st");
    assert_eq!(shop.run("2026-03-31T04:00:00Z").await, 1, "daylight saving time has begun");
    // Midnight is skipped in Cairo on 25 April 2031, and repeated in Havana on 2 November.
    for (zone, start_at, begins) in [
        ("Africa/Cairo", "2031-04-25", "2031-04-24T22:00:00Z"),
        ("America/Havana", "2031-11-02", "2031-11-02T04:00:00Z"),
        ("Asia/Kolkata", "2031-01-01", "2030-12-31T18:30:00Z"),
    ] {
        let subscription = shop.subscribe(&plan, Some(start_at), zone, "2026-01-01T00:00:00Z").await.expect("created");
        assert_eq!(subscription.next_billing_at, Some(at(begins)), "{zone}");
    }
    // The day that Samoa skipped is billed on the following day.
    let plan = shop.plan(Interval::Day, 1).await;
    let subscription = shop.subscribe(&plan, None, "Pacific/Apia", "2011-12-29T12:00:00Z").await.expect("created");
    assert_eq!(subscription.anchor.to_string(), "2011-12-29");
    shop.run("2011-12-30T10:00:00Z").await;
    let periods = shop.periods(subscription.id).await;
    assert_eq!(periods, ["2011-12-29/2011-12-29", "2011-12-30/2011-12-30", "2011-12-31/2011-12-31"]);
    let days = [subscription.current_period_start, subscription.current_period_end]
        .map(|instant| instant.map(|i| i.to_string()));
    assert_eq!(days, ["2011-12-29T10:00:00.000Z", "2011-12-30T10:00:00.000Z"].map(|i| Some(i.to_owned())));
}

#[tokio::test]
async fn time_zone_rule_changes_move_the_instant_not_the_date() {
    let shop = Shop::open().await;
    let subscription = shop.subscribed(Interval::Month, "2026-01-15", "2026-01-15T00:00:00Z").await;
    // As if the zone's former rules had the 15th begin an hour earlier.
    let early =
        "UPDATE subscriptions SET next_billing_at = '2026-02-14T23:00:00Z', current_period_end = '2026-02-14T23:00:00Z'
                 WHERE id = $1";
    shop.write(early, subscription.id.uuid()).await;
    assert_eq!(shop.run("2026-02-14T23:30:00Z").await, 1, "it is handled");
    let stored = shop.stored(subscription.id).await;
    assert_eq!(stored.next_billing_at, Some(at("2026-02-15T00:00:00Z")), "the time is corrected");
    assert_eq!(shop.periods(subscription.id).await.len(), 1, "nothing is billed");
    shop.run("2026-02-15T00:00:00Z").await;
    assert_eq!(shop.periods(subscription.id).await[1..], ["2026-02-15/2026-03-14"]);
}

#[tokio::test]
async fn starts_at_the_end_of_the_calendar_are_rejected() {
    let shop = Shop::open().await;
    let now = "2026-01-01T00:00:00Z";
    let plan = shop.plan(Interval::Month, 1).await;
    for start_at in ["9999-12-01", "9999-12-31"] {
        let refused = shop.subscribe(&plan, Some(start_at), "UTC", now).await;
        assert!(matches!(refused, Err(Error::Invalid { ref param, .. }) if param == "startAt"), "{refused:?}");
    }
    for start_at in ["0000-01-01", "9999-11-30"] {
        shop.subscribe(&plan, Some(start_at), "UTC", now).await.expect(start_at);
    }
}

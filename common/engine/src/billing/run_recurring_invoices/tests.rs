//! Which accounts' cycles run, and at what time: cases that cannot be reached over HTTP.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use metrics_exporter_prometheus::PrometheusBuilder;

use super::*;
use crate::tests::{Fixture, at, failed, rent};
use domain::accounts::Caller;
use domain::recurring_invoices::{RecurringInvoiceChange, Status};
use foundation::calendar::Unit;
use foundation::id::AccountId;

/// A morning in January, the start of all tests here.
fn morning() -> Timestamp {
    at("2027-01-10T09:00:00Z")
}

impl Fixture {
    /// Creates a monthly recurring invoice that starts today.
    async fn monthly(&self, caller: &Caller) -> RecurringInvoiceId {
        let new = rent(self.customer(caller, morning()).await, Unit::Month, None);
        crate::create_recurring_invoice(&self.db, caller, new, None, morning()).await.expect("dates").into_new().id
    }

    async fn run(&self, scope: Scope, limit: i64) -> usize {
        run_due_recurring_invoices(&self.db, scope, limit).await.expect("a run")
    }

    /// The account's invoices: when each was issued, and its period.
    async fn billed(&self, caller: &Caller) -> Vec<(Timestamp, String)> {
        let query = "SELECT issued_at, billing_period FROM invoices WHERE account_id = $1 ORDER BY number";
        sqlx::query_as(query).bind(caller.account_id.uuid()).fetch_all(&*self.db).await.expect("rows")
    }

    async fn next_due(&self, account: AccountId) -> Option<Timestamp> {
        recurring_invoices::next_due(&self.db, account).await.expect("read")
    }

    async fn execute(&self, statement: &'static str, account: AccountId) {
        sqlx::query(statement).bind(account.uuid()).execute(&*self.db).await.expect(statement);
    }
}

#[tokio::test]
async fn accounts_run_by_their_own_time() {
    let fixture = Fixture::open().await;
    let (one, other) = (fixture.account(morning()).await, fixture.account(morning()).await);
    assert_eq!(fixture.next_due(one.account_id).await, None);
    fixture.monthly(&one).await;
    fixture.monthly(&other).await;
    for (now, found) in [
        ("2027-01-09T23:59:59Z", 0),
        ("2027-01-10T09:00:00Z", 1),
        ("2027-01-10T09:00:00Z", 0),
        ("2027-02-09T23:59:59.999Z", 0),
        ("2027-02-10T00:00:00Z", 1),
    ] {
        assert_eq!(fixture.run(Scope::Account(one.account_id, at(now)), 10).await, found, "at {now}");
    }
    assert_eq!(fixture.next_due(one.account_id).await, Some(at("2027-03-10T00:00:00Z")));
    assert_eq!(
        fixture.next_due(other.account_id).await,
        Some(at("2027-01-10T00:00:00Z")),
        "the other account is not affected"
    );
    let expected = [
        (at("2027-01-10T09:00:00Z"), "2027-01-10/2027-02-09".to_owned()),
        (at("2027-02-10T00:00:00Z"), "2027-02-10/2027-03-09".to_owned()),
    ];
    assert_eq!(fixture.billed(&one).await, expected);
    assert!(fixture.billed(&other).await.is_empty());
}

#[tokio::test]
async fn accounts_whose_clock_is_being_advanced_are_excluded() {
    let fixture = Fixture::open().await;
    let (plain, ahead, advancing) =
        (fixture.account(morning()).await, fixture.account(morning()).await, fixture.account(morning()).await);
    for caller in [&plain, &ahead, &advancing] {
        fixture.monthly(caller).await;
    }
    fixture.execute("INSERT INTO test_clocks (account_id, ahead_us) VALUES ($1, 3600000000)", ahead.account_id).await;
    let advance = "INSERT INTO test_clocks (account_id, frozen_at, target, next_push_at) VALUES ($1, '2027-01-10', '2027-06-01', 'infinity')";
    fixture.execute(advance, advancing.account_id).await;

    assert_eq!(
        recurring_invoices::oldest_due(&fixture.db, morning()).await.expect("read"),
        Some(at("2027-01-10T00:00:00Z"))
    );
    assert_eq!(fixture.run(Scope::AllAccounts(morning()), 10).await, 2);
    assert_eq!(recurring_invoices::oldest_due(&fixture.db, morning()).await.expect("read"), None);
    let period = "2027-01-10/2027-02-09".to_owned();
    assert_eq!(fixture.billed(&plain).await, [(morning(), period.clone())]);
    let own_time = morning().plus(Duration::from_secs(3600));
    assert_eq!(fixture.billed(&ahead).await, [(own_time, period.clone())], "by its own clock");
    assert!(fixture.billed(&advancing).await.is_empty());
    // Only the advance itself bills it.
    let midnight = at("2027-01-10T00:00:00Z");
    assert_eq!(fixture.run(Scope::Advance(advancing.account_id, midnight), 10).await, 1);
    assert_eq!(fixture.billed(&advancing).await, [(midnight, period)]);
}

#[tokio::test]
async fn runs_are_limited_and_the_next_continues() {
    let fixture = Fixture::open().await;
    let caller = fixture.account(morning()).await;
    for _ in 0..5 {
        fixture.monthly(&caller).await;
    }
    for found in [2, 2, 1, 0] {
        assert_eq!(fixture.run(Scope::AllAccounts(morning()), 2).await, found);
    }
    assert_eq!(fixture.billed(&caller).await.len(), 5);
}

#[tokio::test]
async fn one_that_cannot_be_read_does_not_stop_the_others() {
    let (fixture, recorder) = (Fixture::open().await, PrometheusBuilder::new().build_recorder());
    let _counting = metrics::set_default_local_recorder(&recorder);
    crate::register_billing_metrics();
    assert_eq!(failed(&recorder, "recurring_invoices").as_deref(), Some("0"));
    let caller = fixture.account(morning()).await;
    for _ in 0..2 {
        fixture.monthly(&caller).await;
    }
    let unreadable = "UPDATE recurring_invoices SET template = '{}', next_run_at = next_run_at - interval '1 second'
                      WHERE id = (SELECT id FROM recurring_invoices WHERE account_id = $1 ORDER BY id LIMIT 1)";
    fixture.execute(unreadable, caller.account_id).await;
    let run = run_due_recurring_invoices(&fixture.db, Scope::AllAccounts(morning()), 1).await;
    assert!(matches!(run, Err(Error::Database(_))), "{run:?}");
    assert_eq!(failed(&recorder, "recurring_invoices").as_deref(), Some("1"));
    for found in [1, 0] {
        assert_eq!(fixture.run(Scope::AllAccounts(morning()), 1).await, found);
    }
    assert_eq!(fixture.billed(&caller).await.len(), 1);
    assert!(fixture.next_due(caller.account_id).await.is_some_and(|at| at > morning()), "it is tried again");
}

#[tokio::test]
async fn concurrent_runs_bill_each_cycle_once() {
    let fixture = Fixture::open().await;
    let caller = fixture.account(morning()).await;
    fixture.monthly(&caller).await;
    let spring = at("2027-04-20T00:00:00Z");
    for cycles in 1..=4 {
        join_all((0..4).map(|_| fixture.run(Scope::AllAccounts(spring), 10))).await;
        assert!(fixture.billed(&caller).await.len() >= cycles, "each round bills at least one cycle");
    }
    join_all((0..4).map(|_| fixture.run(Scope::Account(caller.account_id, spring), 10))).await;
    let periods: Vec<_> = fixture.billed(&caller).await.into_iter().map(|(_, period)| period).collect();
    let expected = ["2027-01-10/2027-02-09", "2027-02-10/2027-03-09", "2027-03-10/2027-04-09", "2027-04-10/2027-05-09"];
    assert_eq!(periods, expected);
}

#[tokio::test]
async fn interrupted_runs_leave_whole_cycles_and_lose_no_update() {
    let fixture = Fixture::open().await;
    let caller = fixture.account(morning()).await;
    let mut all = Vec::new();
    for _ in 0..3 {
        all.push(fixture.monthly(&caller).await);
    }
    let later = at("2031-01-20T00:00:00Z");
    let run = async || {
        while fixture.run(Scope::AllAccounts(later), 10).await > 0 {}
    };
    for pause in 0..30 {
        // A dropped future stops at any await point, like a killed process.
        let _ = tokio::time::timeout(Duration::from_millis(pause), run()).await;
        let partial = "SELECT count(*) FROM recurring_invoices r WHERE occurrence_count <>
                           (SELECT count(*) FROM invoices i WHERE i.recurring_invoice_id = r.id)";
        let partial: i64 = sqlx::query_scalar(partial).fetch_one(&*fixture.db).await.expect("counted");
        assert_eq!(partial, 0, "an invoice without its count, or a count without its invoice");
    }
    let rename = all.iter().enumerate().map(|(number, id)| {
        let change =
            RecurringInvoiceChange { name: Some(format!("Rent {number}")), ..RecurringInvoiceChange::default() };
        crate::update_recurring_invoice(&fixture.db, &caller, *id, change, later)
    });
    let ((), (), renamed) = tokio::join!(run(), run(), join_all(rename));
    run().await;
    for (number, renamed) in renamed.into_iter().enumerate() {
        renamed.expect("renamed");
        let stored =
            recurring_invoices::retrieve(&fixture.db, caller.account_id, all[number]).await.expect("it exists");
        assert_eq!((stored.name, stored.occurrence_count), (Some(format!("Rent {number}")), 49));
    }
    let periods: BTreeSet<_> = fixture.billed(&caller).await.into_iter().map(|(_, period)| period).collect();
    assert_eq!((periods.len(), periods.first().map(String::as_str)), (49, Some("2027-01-10/2027-02-09")));
    let numbers: i64 = sqlx::query_scalar("SELECT last - (SELECT count(*) FROM invoices) FROM invoice_numbers")
        .fetch_one(&*fixture.db)
        .await
        .expect("numbers");
    assert_eq!(numbers, 0, "invoice numbers have no gaps");
}

#[tokio::test]
async fn failures_are_retried_by_the_accounts_clock() {
    let fixture = Fixture::open().await;
    let caller = fixture.account(morning()).await;
    let id = fixture.monthly(&caller).await;
    // An unknown zone, so the beginning of its days cannot be computed.
    fixture.execute("UPDATE accounts SET timezone = 'Mars/Olympus' WHERE id = $1", caller.account_id).await;
    for (now, next) in [
        ("2027-01-10T00:00:00Z", Some(at("2027-01-10T01:00:00Z"))),
        ("2027-01-10T01:00:00Z", Some(at("2027-01-10T07:00:00Z"))),
        ("2027-01-10T07:00:00Z", None),
    ] {
        assert_eq!(fixture.run(Scope::Account(caller.account_id, at(now)), 10).await, 1, "the run itself succeeds");
        assert_eq!(fixture.next_due(caller.account_id).await, next);
    }
    let parked = recurring_invoices::retrieve(&fixture.db, caller.account_id, id).await.expect("it exists");
    assert_eq!((parked.status, parked.occurrence_count), (Status::Parked, 0));
    assert!(fixture.billed(&caller).await.is_empty());
}

#[tokio::test]
async fn database_errors_are_not_counted_as_failures() {
    let fixture = Fixture::open().await;
    let (caller, other) = (fixture.account(morning()).await, fixture.account(morning()).await);
    let id = fixture.monthly(&caller).await;
    fixture.monthly(&other).await;
    // A table is temporarily unavailable, so no invoice number can be assigned.
    let rename = |from: &str, to: &str| sqlx::AssertSqlSafe(format!("ALTER TABLE {from} RENAME TO {to}"));
    sqlx::query(rename("invoice_numbers", "gone")).execute(&*fixture.db).await.expect("renamed");
    let before = recurring_invoices::retrieve(&fixture.db, caller.account_id, id).await.expect("it exists");
    run_due_recurring_invoices(&fixture.db, Scope::AllAccounts(morning()), 10).await.expect_err("the run reports it");
    let after = recurring_invoices::retrieve(&fixture.db, caller.account_id, id).await.expect("it exists");
    assert_eq!((after.failure_count, after.next), (0, before.next));
    sqlx::query(rename("gone", "invoice_numbers")).execute(&*fixture.db).await.expect("renamed");
    assert_eq!(fixture.run(Scope::AllAccounts(morning()), 10).await, 2);
    assert_eq!((fixture.billed(&caller).await.len(), fixture.billed(&other).await.len()), (1, 1));
}

//! For whom cycles run, and at what time: what no merchant can ask for over HTTP.

use std::time::Duration;

use futures_util::future::join_all;

use super::*;
use crate::accounts::Caller;
use crate::calendar::Unit;
use crate::flows::tests::{Books, at, rent};
use crate::id::AccountId;
use crate::recurring_invoices::Status;

/// A morning in January, on which everything here is made.
fn morning() -> Timestamp {
    at("2027-01-10T09:00:00Z")
}

impl Books {
    /// One of each month from today on.
    async fn monthly(&self, caller: &Caller) -> RecurringInvoiceId {
        let new = rent(self.customer(caller, morning()).await, Unit::Month, None);
        crate::flows::create_recurring_invoice(&self.db, caller, new, None, morning()).await.expect("dates").made().id
    }

    async fn run(&self, scope: Scope, limit: i64) -> usize {
        run_due_recurring_invoices(&self.db, scope, limit).await.expect("a run")
    }

    /// What was billed for an account: when it was issued, and for which period.
    async fn billed(&self, caller: &Caller) -> Vec<(Timestamp, String)> {
        let query = "SELECT issued_at, billing_period FROM invoices WHERE account_id = $1 ORDER BY number";
        sqlx::query_as(query).bind(caller.account_id.uuid()).fetch_all(&*self.db).await.expect("rows")
    }

    async fn next_due(&self, account: AccountId) -> Option<Timestamp> {
        recurring_invoices::next_due(&self.db, account).await.expect("asked")
    }

    async fn execute(&self, statement: &'static str, account: AccountId) {
        sqlx::query(statement).bind(account.uuid()).execute(&*self.db).await.expect(statement);
    }
}

#[tokio::test]
async fn one_account_runs_at_its_own_time() {
    let books = Books::open().await;
    let (one, other) = (books.account(morning()).await, books.account(morning()).await);
    assert_eq!(books.next_due(one.account_id).await, None);
    books.monthly(&one).await;
    books.monthly(&other).await;
    for (now, found) in [
        ("2027-01-09T23:59:59Z", 0),
        ("2027-01-10T09:00:00Z", 1),
        ("2027-01-10T09:00:00Z", 0),
        ("2027-02-09T23:59:59.999Z", 0),
        ("2027-02-10T00:00:00Z", 1),
    ] {
        assert_eq!(books.run(Scope::Account(one.account_id, at(now)), 10).await, found, "at {now}");
    }
    assert_eq!(books.next_due(one.account_id).await, Some(at("2027-03-10T00:00:00Z")));
    assert_eq!(books.next_due(other.account_id).await, Some(at("2027-01-10T00:00:00Z")), "nobody else's time has come");
    let expected = [
        (at("2027-01-10T09:00:00Z"), "2027-01-10/2027-02-09".to_owned()),
        (at("2027-02-10T00:00:00Z"), "2027-02-10/2027-03-09".to_owned()),
    ];
    assert_eq!(books.billed(&one).await, expected);
    assert!(books.billed(&other).await.is_empty());
}

#[tokio::test]
async fn everyone_is_everyone_whose_clock_is_not_being_advanced() {
    let books = Books::open().await;
    let (plain, ahead, advancing) =
        (books.account(morning()).await, books.account(morning()).await, books.account(morning()).await);
    for caller in [&plain, &ahead, &advancing] {
        books.monthly(caller).await;
    }
    books.execute("INSERT INTO test_clocks (account_id, ahead_us) VALUES ($1, 3600000000)", ahead.account_id).await;
    let advance = "INSERT INTO test_clocks (account_id, frozen_at, target, next_push_at) VALUES ($1, '2027-01-10', '2027-06-01', 'infinity')";
    books.execute(advance, advancing.account_id).await;

    assert_eq!(
        recurring_invoices::oldest_due(&books.db, morning()).await.expect("asked"),
        Some(at("2027-01-10T00:00:00Z"))
    );
    assert_eq!(books.run(Scope::Everyone(morning()), 10).await, 2);
    assert_eq!(recurring_invoices::oldest_due(&books.db, morning()).await.expect("asked"), None);
    let period = "2027-01-10/2027-02-09".to_owned();
    assert_eq!(books.billed(&plain).await, [(morning(), period.clone())]);
    let own_time = morning().plus(Duration::from_secs(3600));
    assert_eq!(books.billed(&ahead).await, [(own_time, period.clone())], "by its own clock");
    assert!(books.billed(&advancing).await.is_empty());
    // Whoever advances it does it.
    let midnight = at("2027-01-10T00:00:00Z");
    assert_eq!(books.run(Scope::Advance(advancing.account_id, midnight), 10).await, 1);
    assert_eq!(books.billed(&advancing).await, [(midnight, period)]);
}

#[tokio::test]
async fn a_run_has_a_limit_and_the_next_one_goes_on() {
    let books = Books::open().await;
    let caller = books.account(morning()).await;
    for _ in 0..5 {
        books.monthly(&caller).await;
    }
    for found in [2, 2, 1, 0] {
        assert_eq!(books.run(Scope::Everyone(morning()), 2).await, found);
    }
    assert_eq!(books.billed(&caller).await.len(), 5);
}

#[tokio::test]
async fn of_many_runs_at_once_one_does_it() {
    let books = Books::open().await;
    let caller = books.account(morning()).await;
    books.monthly(&caller).await;
    let spring = at("2027-04-20T00:00:00Z");
    for cycles in 1..=4 {
        join_all((0..4).map(|_| books.run(Scope::Everyone(spring), 10))).await;
        assert!(books.billed(&caller).await.len() >= cycles, "each time one of them at least");
    }
    join_all((0..4).map(|_| books.run(Scope::Account(caller.account_id, spring), 10))).await;
    let periods: Vec<_> = books.billed(&caller).await.into_iter().map(|(_, period)| period).collect();
    let expected = ["2027-01-10/2027-02-09", "2027-02-10/2027-03-09", "2027-03-10/2027-04-09", "2027-04-10/2027-05-09"];
    assert_eq!(periods, expected);
}

#[tokio::test]
async fn a_failure_is_tried_again_by_the_accounts_own_clock() {
    let books = Books::open().await;
    let caller = books.account(morning()).await;
    let id = books.monthly(&caller).await;
    // A zone that no machine knows: nobody can say when its days begin.
    books.execute("UPDATE accounts SET timezone = 'Mars/Olympus' WHERE id = $1", caller.account_id).await;
    for (now, next) in [
        ("2027-01-10T00:00:00Z", Some(at("2027-01-10T01:00:00Z"))),
        ("2027-01-10T01:00:00Z", Some(at("2027-01-10T07:00:00Z"))),
        ("2027-01-10T07:00:00Z", None),
    ] {
        assert_eq!(books.run(Scope::Account(caller.account_id, at(now)), 10).await, 1, "it is no error of the run");
        assert_eq!(books.next_due(caller.account_id).await, next);
    }
    let parked = recurring_invoices::retrieve(&books.db, caller.account_id, id).await.expect("it is there");
    assert_eq!((parked.status, parked.occurrence_count), (Status::Parked, 0));
    assert!(books.billed(&caller).await.is_empty());
}

#[tokio::test]
async fn what_is_no_fault_of_the_recurring_invoice_is_not_held_against_it() {
    let books = Books::open().await;
    let (caller, other) = (books.account(morning()).await, books.account(morning()).await);
    let id = books.monthly(&caller).await;
    books.monthly(&other).await;
    // An operator is at work on the tables: nobody can be given a number.
    let rename = |from: &str, to: &str| sqlx::AssertSqlSafe(format!("ALTER TABLE {from} RENAME TO {to}"));
    sqlx::query(rename("invoice_numbers", "gone")).execute(&*books.db).await.expect("renamed");
    let before = recurring_invoices::retrieve(&books.db, caller.account_id, id).await.expect("it is there");
    run_due_recurring_invoices(&books.db, Scope::Everyone(morning()), 10).await.expect_err("whoever runs it is told");
    let after = recurring_invoices::retrieve(&books.db, caller.account_id, id).await.expect("it is there");
    assert_eq!((after.failure_count, after.next), (0, before.next));
    sqlx::query(rename("gone", "invoice_numbers")).execute(&*books.db).await.expect("renamed");
    assert_eq!(books.run(Scope::Everyone(morning()), 10).await, 2);
    assert_eq!((books.billed(&caller).await.len(), books.billed(&other).await.len()), (1, 1));
}

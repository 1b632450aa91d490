//! The rules of dates and failures, without a database.

use super::*;
use crate::accounts;
use crate::calendar::{PaymentTerms, Unit};
use crate::capabilities::{Connected, Grants};
use crate::id::{KeyId, ProviderAccountId};
use crate::invoices::Item;
use crate::providers::ProviderKind;

fn day(text: &str) -> Date {
    text.parse().expect("a day")
}

/// Noon of a day in New York, where it begins five hours after UTC's in winter and four in summer.
fn noon(text: &str) -> Timestamp {
    Timestamp::parse(&format!("{text}T17:00:00Z")).expect("an instant")
}

fn new_york() -> TimeZone {
    "America/New_York".parse().expect("a zone")
}

fn caller(now: Timestamp) -> Caller {
    let account_id = AccountId::new(now);
    Caller {
        key_id: KeyId::new(now),
        key_kind: accounts::KeyKind::Secret,
        account_id,
        mode: Mode::Test,
        provider_account_id: ProviderAccountId::new(now),
        provider: ProviderKind::Mock,
        grants: Grants { entitlements: None, unsupported: vec![], forbidden: vec![], connected: Connected::YES },
        allowed_origins: vec![],
        rate: accounts::Rate::default_of(Mode::Test),
        signing_secret: None,
        modifiers: serde_json::json!({}),
        time: accounts::AccountTime::new(account_id, false),
    }
}

fn sent(unit: Unit, interval: i64, day_of_month: Option<i64>) -> SentCadence {
    SentCadence { unit, interval, day_of_month }
}

/// One that is made on `today`.
fn made(today: &str, cadence: SentCadence, start: Option<&str>, end: Option<&str>) -> Result<RecurringInvoice> {
    let now = noon(today);
    let item = Item { description: "Rent".into(), quantity: 1, unit_amount: 500 };
    let new = NewRecurringInvoice {
        customer_id: CustomerId::new(now).to_string(),
        name: None,
        cadence: cadence.with(false)?,
        start_date: start.map(day),
        end_date: end.map(day),
        issue_mode: IssueMode::AutoSend,
        template: Template {
            currency: "USD".parse().expect("a currency"),
            payment_terms: PaymentTerms::Net7,
            description: None,
            bill: Template::bill(vec![item], None, None)?,
        },
    };
    new.starting(&caller(now), &new_york(), now)
}

fn at_fault(refused: Error) -> String {
    let Error::Invalid { param, .. } = refused else { panic!("{refused:?}") };
    param.to_string()
}

#[test]
fn the_first_cycle_is_the_first_from_today_on() {
    let monthly = |day| sent(Unit::Month, 1, day);
    for (cadence, start, first, anchor) in [
        (monthly(None), None, "2026-11-21", "2026-11-21"),
        (monthly(Some(21)), None, "2026-11-21", "2026-11-21"),
        (monthly(Some(20)), None, "2026-12-20", "2026-12-20"),
        (monthly(Some(31)), Some("2027-02-01"), "2027-02-28", "2027-02-28"),
        // What has passed anchors, and is not made up for.
        (monthly(None), Some("2026-01-31"), "2026-11-30", "2026-01-31"),
        (sent(Unit::Month, 3, Some(15)), Some("2026-01-10"), "2027-01-15", "2026-01-15"),
        (sent(Unit::Week, 1, None), Some("2026-11-11"), "2026-11-25", "2026-11-11"),
        (sent(Unit::Week, 2, None), Some("2026-11-07"), "2026-11-21", "2026-11-07"),
    ] {
        let recurring = made("2026-11-21", cadence, start, None).expect("dates");
        let next = recurring.next.expect("a next date");
        assert_eq!((next.date, recurring.anchor), (day(first), day(anchor)), "{cadence:?} from {start:?}");
        assert_eq!(next.run_at, new_york().beginning_of(day(first)));
        assert_eq!(recurring.start_date, day(start.unwrap_or("2026-11-21")));
        assert_eq!((recurring.status, recurring.occurrence_count), (Status::Active, 0));
    }
    let summer = made("2026-06-30", monthly(Some(1)), None, None).expect("dates").next.expect("a next date");
    assert_eq!(summer.run_at.to_string(), "2026-07-01T04:00:00.000Z");
}

#[test]
fn one_that_would_never_produce_anything_is_not_made() {
    let daily = sent(Unit::Day, 1, None);
    let refused = |cadence, start, end| at_fault(made("2026-11-21", cadence, start, end).expect_err("no dates"));
    assert_eq!(refused(daily, Some("2026-12-02"), Some("2026-12-01")), "endDate");
    assert_eq!(refused(daily, None, Some("2026-11-20")), "endDate", "before today, which it would start on");
    assert_eq!(refused(daily, Some("2026-11-01"), Some("2026-11-20")), "endDate", "all of it has passed");
    assert_eq!(refused(sent(Unit::Month, 1, Some(15)), None, Some("2026-12-14")), "endDate");
    assert_eq!(refused(daily, Some("9999-12-31"), None), "startDate");
    assert_eq!(refused(sent(Unit::Month, 1, Some(1)), Some("9999-12-02"), None), "startDate");
    assert!(made("2026-11-21", daily, None, Some("2026-11-21")).is_ok(), "the end is part of it");
}

#[test]
fn another_cadence_is_counted_from_today_or_from_a_start_that_is_ahead() {
    for (start, today, anchor) in [
        ("2026-01-15", "2026-05-04", "2026-05-10"),
        ("2026-01-15", "2026-05-10", "2026-05-10"),
        ("2026-01-15", "2026-05-11", "2026-06-10"),
        ("2027-03-01", "2026-05-04", "2027-03-10"),
    ] {
        let mut recurring = made("2026-01-01", sent(Unit::Month, 3, None), Some(start), None).expect("dates");
        let change = RecurringInvoiceChange {
            cadence: Some(sent(Unit::Month, 2, Some(10))),
            ..RecurringInvoiceChange::default()
        };
        assert_eq!(recurring.change(change, day(today)).expect("a change"), Some(day(today)));
        assert_eq!((recurring.anchor, recurring.start_date), (day(anchor), day(start)), "from {today}");
    }
}

#[test]
fn another_start_is_what_the_dates_are_counted_from() {
    let mut recurring = made("2026-01-01", sent(Unit::Month, 1, None), Some("2026-01-15"), None).expect("dates");
    let change = RecurringInvoiceChange { start_date: Some(day("2026-03-20")), ..RecurringInvoiceChange::default() };
    assert_eq!(recurring.change(change, day("2026-05-04")).expect("a change"), Some(day("2026-05-04")));
    assert_eq!((recurring.anchor, recurring.start_date), (day("2026-03-20"), day("2026-03-20")));
}

#[test]
fn what_is_sent_as_it_stands_moves_no_date() {
    let quarterly = sent(Unit::Month, 3, Some(15));
    let mut recurring = made("2026-01-01", quarterly, Some("2026-01-10"), Some("2027-12-31")).expect("dates");
    let before = recurring.clone();
    let same = RecurringInvoiceChange {
        customer_id: Some(recurring.customer_id.to_string()),
        name: Some("Rent".into()),
        cadence: Some(quarterly),
        last_day_of_month: Some(false),
        start_date: Some(day("2026-01-10")),
        end_date: Some(day("2027-12-31")),
        issue_mode: Some(IssueMode::DraftForReview),
        template: None,
    };
    assert_eq!(recurring.change(same, day("2026-05-04")).expect("a change"), None);
    assert_eq!((recurring.anchor, recurring.next), (before.anchor, before.next));
    assert_eq!((recurring.name.as_deref(), recurring.issue_mode), (Some("Rent"), IssueMode::DraftForReview));
    assert_eq!(recurring.change(RecurringInvoiceChange::default(), day("2026-05-04")).expect("none"), None);
    assert_eq!(recurring.name.as_deref(), Some("Rent"), "what is not sent stays");
}

#[test]
fn another_end_leaves_the_anchor_and_what_is_due() {
    let quarterly = sent(Unit::Month, 3, Some(15));
    let mut recurring = made("2026-01-01", quarterly, Some("2026-01-10"), None).expect("dates");
    // Nobody has produced January's yet.
    let change = RecurringInvoiceChange { end_date: Some(day("2026-06-30")), ..RecurringInvoiceChange::default() };
    assert_eq!(recurring.change(change, day("2026-02-01")).expect("a change"), Some(day("2026-01-15")));
    assert_eq!(recurring.anchor, day("2026-01-15"));
}

#[test]
fn a_change_that_does_not_go_together_names_what_was_sent() {
    let made = || made("2026-01-01", sent(Unit::Month, 1, Some(15)), Some("2026-01-10"), Some("2026-12-31"));
    let nothing = RecurringInvoiceChange::default;
    for (change, expected) in [
        (RecurringInvoiceChange { last_day_of_month: Some(true), ..nothing() }, "lastDayOfMonth"),
        (RecurringInvoiceChange { cadence: Some(sent(Unit::Day, 1, Some(1))), ..nothing() }, "cadence.dayOfMonth"),
        (RecurringInvoiceChange { end_date: Some(day("2026-01-09")), ..nothing() }, "endDate"),
        (RecurringInvoiceChange { start_date: Some(day("2027-01-01")), ..nothing() }, "startDate"),
        (RecurringInvoiceChange { customer_id: Some("cus_1".into()), ..nothing() }, "customerId"),
    ] {
        let mut recurring = made().expect("dates");
        let refused = recurring.change(change, day("2026-05-04")).expect_err(expected);
        assert_eq!(at_fault(refused), expected);
        assert_eq!(recurring.end_date, Some(day("2026-12-31")), "nothing was changed");
    }
    // With the last day of the month gone from the cadence, it may be asked for.
    let change = RecurringInvoiceChange {
        cadence: Some(sent(Unit::Month, 1, None)),
        last_day_of_month: Some(true),
        ..nothing()
    };
    let mut recurring = made().expect("dates");
    recurring.change(change, day("2026-05-04")).expect("a change");
    assert_eq!((recurring.anchor, recurring.cadence.last_day_of_month()), (day("2026-05-31"), true));
    // It stays until it is taken back.
    let days = RecurringInvoiceChange { cadence: Some(sent(Unit::Day, 1, None)), ..nothing() };
    assert_eq!(at_fault(recurring.change(days, day("2026-05-04")).expect_err("both")), "lastDayOfMonth");
    let days =
        RecurringInvoiceChange { cadence: Some(sent(Unit::Day, 1, None)), last_day_of_month: Some(false), ..nothing() };
    recurring.change(days, day("2026-05-04")).expect("a change");
}

#[test]
fn one_that_is_over_refuses_a_change_that_would_be_right() {
    for status in [Status::Completed, Status::Cancelled] {
        let mut recurring = made("2026-01-01", sent(Unit::Month, 1, None), None, None).expect("dates");
        recurring.stop(status);
        let refused = recurring.change(RecurringInvoiceChange::default(), day("2026-05-04"));
        assert!(matches!(refused, Err(Error::Conflict(_))), "{refused:?}");
        let wrong = RecurringInvoiceChange { customer_id: Some("x".into()), ..RecurringInvoiceChange::default() };
        assert_eq!(at_fault(recurring.change(wrong, day("2026-05-04")).expect_err("wrong")), "customerId");
    }
}

#[test]
fn the_third_failure_in_a_row_parks() {
    let mut recurring = made("2026-11-21", sent(Unit::Month, 1, None), None, None).expect("dates");
    let now = noon("2026-11-21");
    for (count, after) in [(1, 1), (2, 6)] {
        recurring.fail(now);
        let next = recurring.next.expect("tried again");
        assert_eq!(next, Next { date: day("2026-11-21"), run_at: now.plus(Duration::from_secs(after * 3600)) });
        assert_eq!((recurring.status, recurring.failure_count), (Status::Active, count));
    }
    recurring.fail(now);
    assert_eq!((recurring.status, recurring.failure_count, recurring.next), (Status::Parked, 3, None));

    let cycle = recurring.schedule().expect("dates").on_or_after(day("2026-11-22"));
    recurring.go_on(cycle, &new_york());
    assert_eq!((recurring.status, recurring.failure_count), (Status::Active, 0));
    assert_eq!(recurring.next.map(|next| next.date), Some(day("2026-12-21")));
    recurring.fail(now);
    recurring.go_on(cycle, &new_york());
    recurring.fail(now);
    recurring.fail(now);
    assert_eq!(recurring.status, Status::Active, "a success between them begins anew");
    recurring.go_on(None, &new_york());
    assert_eq!((recurring.status, recurring.next, recurring.failure_count), (Status::Completed, None, 0));
}

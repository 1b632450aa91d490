//! Tests the rules of dates and failures, without a database.

use std::time::Duration;

use super::*;
use crate::accounts::{self, Caller};
use crate::invoices::Item;
use foundation::calendar::{PaymentTerms, Unit};
use foundation::id::{KeyId, ProviderAccountId};
use foundation::merchant_data::{MerchantData, MerchantDataChange};
use providers::ProviderKind;
use providers::capabilities::{Connected, Grants};

fn day(text: &str) -> Date {
    text.parse().expect("a date")
}

/// 17:00 UTC: 12:00 in New York in winter, 13:00 in summer.
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
        currencies: None,
        grants: Grants { entitlements: None, unsupported: vec![], forbidden: vec![], connected: Connected::ALL },
        allowed_origins: vec![],
        rate: accounts::Rate::default_of(Mode::Test),
        signing_secret: None,
        modifiers: serde_json::json!({}),
        time: accounts::AccountTime::new(account_id, false),
    }
}

fn cadence(unit: Unit, interval: i64, day_of_month: Option<i64>) -> SentCadence {
    SentCadence { unit, interval, day_of_month }
}

/// A recurring invoice created on `today`.
fn create(today: &str, cadence: SentCadence, start: Option<&str>, end: Option<&str>) -> Result<RecurringInvoice> {
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
        merchant_data: MerchantData::default(),
    };
    new.into_recurring_invoice(&caller(now), &new_york(), now)
}

fn invalid_field(error: Error) -> String {
    let Error::Invalid { param, .. } = error else { panic!("{error:?}") };
    param.to_string()
}

#[test]
fn the_first_cycle_is_the_first_on_or_after_today() {
    let monthly = |day| cadence(Unit::Month, 1, day);
    for (cadence, start, first, anchor) in [
        (monthly(None), None, "2026-11-21", "2026-11-21"),
        (monthly(Some(21)), None, "2026-11-21", "2026-11-21"),
        (monthly(Some(20)), None, "2026-12-20", "2026-12-20"),
        (monthly(Some(31)), Some("2027-02-01"), "2027-02-28", "2027-02-28"),
        // Past dates determine the anchor, but are not billed.
        (monthly(None), Some("2026-01-31"), "2026-11-30", "2026-01-31"),
        (cadence(Unit::Month, 3, Some(15)), Some("2026-01-10"), "2027-01-15", "2026-01-15"),
        (cadence(Unit::Week, 1, None), Some("2026-11-11"), "2026-11-25", "2026-11-11"),
        (cadence(Unit::Week, 2, None), Some("2026-11-07"), "2026-11-21", "2026-11-07"),
    ] {
        let recurring = create("2026-11-21", cadence, start, None).expect("dates");
        let next = recurring.next.expect("a next date");
        assert_eq!((next.date, recurring.anchor), (day(first), day(anchor)), "{cadence:?} from {start:?}");
        assert_eq!(next.run_at, new_york().beginning_of(day(first)));
        assert_eq!(recurring.start_date, day(start.unwrap_or("2026-11-21")));
        assert_eq!((recurring.status, recurring.occurrence_count), (Status::Active, 0));
    }
    let summer = create("2026-06-30", monthly(Some(1)), None, None).expect("dates").next.expect("a next date");
    assert_eq!(summer.run_at.to_string(), "2026-07-01T04:00:00.000Z");
}

#[test]
fn a_schedule_without_future_dates_is_rejected() {
    let daily = cadence(Unit::Day, 1, None);
    let rejected =
        |cadence, start, end| invalid_field(create("2026-11-21", cadence, start, end).expect_err("no dates"));
    assert_eq!(rejected(daily, Some("2026-12-02"), Some("2026-12-01")), "endDate");
    assert_eq!(rejected(daily, None, Some("2026-11-20")), "endDate", "the default start, today, is after the end");
    assert_eq!(rejected(daily, Some("2026-11-01"), Some("2026-11-20")), "endDate", "the end has passed");
    assert_eq!(rejected(cadence(Unit::Month, 1, Some(15)), None, Some("2026-12-14")), "endDate");
    assert_eq!(rejected(daily, Some("9999-12-31"), None), "startDate");
    assert_eq!(rejected(cadence(Unit::Month, 1, Some(1)), Some("9999-12-02"), None), "startDate");
    assert!(create("2026-11-21", daily, None, Some("2026-11-21")).is_ok(), "the end is inclusive");
}

#[test]
fn a_new_cadence_is_counted_from_today_or_a_future_start() {
    for (start, today, anchor) in [
        ("2026-01-15", "2026-05-04", "2026-05-10"),
        ("2026-01-15", "2026-05-10", "2026-05-10"),
        ("2026-01-15", "2026-05-11", "2026-06-10"),
        ("2027-03-01", "2026-05-04", "2027-03-10"),
    ] {
        let mut recurring = create("2026-01-01", cadence(Unit::Month, 3, None), Some(start), None).expect("dates");
        let change = RecurringInvoiceChange {
            cadence: Some(cadence(Unit::Month, 2, Some(10))),
            ..RecurringInvoiceChange::default()
        };
        assert_eq!(recurring.change(change, day(today)).expect("a change"), Some(day(today)));
        assert_eq!((recurring.anchor, recurring.start_date), (day(anchor), day(start)), "from {today}");
    }
}

#[test]
fn a_new_start_becomes_the_anchor() {
    let mut recurring = create("2026-01-01", cadence(Unit::Month, 1, None), Some("2026-01-15"), None).expect("dates");
    let change = RecurringInvoiceChange { start_date: Some(day("2026-03-20")), ..RecurringInvoiceChange::default() };
    assert_eq!(recurring.change(change, day("2026-05-04")).expect("a change"), Some(day("2026-05-04")));
    assert_eq!((recurring.anchor, recurring.start_date), (day("2026-03-20"), day("2026-03-20")));
}

#[test]
fn unchanged_values_do_not_move_dates() {
    let quarterly = cadence(Unit::Month, 3, Some(15));
    let mut recurring = create("2026-01-01", quarterly, Some("2026-01-10"), Some("2027-12-31")).expect("dates");
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
        merchant_data: MerchantDataChange::default(),
    };
    assert_eq!(recurring.change(same, day("2026-05-04")).expect("a change"), None);
    assert_eq!((recurring.anchor, recurring.next), (before.anchor, before.next));
    assert_eq!((recurring.name.as_deref(), recurring.issue_mode), (Some("Rent"), IssueMode::DraftForReview));
    assert_eq!(recurring.change(RecurringInvoiceChange::default(), day("2026-05-04")).expect("none"), None);
    assert_eq!(recurring.name.as_deref(), Some("Rent"), "omitted fields do not change");
}

#[test]
fn a_new_end_keeps_the_anchor_and_the_due_cycle() {
    let quarterly = cadence(Unit::Month, 3, Some(15));
    let mut recurring = create("2026-01-01", quarterly, Some("2026-01-10"), None).expect("dates");
    // The January cycle is due but not billed.
    let change = RecurringInvoiceChange { end_date: Some(day("2026-06-30")), ..RecurringInvoiceChange::default() };
    assert_eq!(recurring.change(change, day("2026-02-01")).expect("a change"), Some(day("2026-01-15")));
    assert_eq!(recurring.anchor, day("2026-01-15"));
}

#[test]
fn invalid_combinations_are_rejected_by_the_sent_field() {
    let existing = || create("2026-01-01", cadence(Unit::Month, 1, Some(15)), Some("2026-01-10"), Some("2026-12-31"));
    let nothing = RecurringInvoiceChange::default;
    for (change, expected) in [
        (RecurringInvoiceChange { last_day_of_month: Some(true), ..nothing() }, "lastDayOfMonth"),
        (RecurringInvoiceChange { cadence: Some(cadence(Unit::Day, 1, Some(1))), ..nothing() }, "cadence.dayOfMonth"),
        (RecurringInvoiceChange { end_date: Some(day("2026-01-09")), ..nothing() }, "endDate"),
        (RecurringInvoiceChange { start_date: Some(day("2027-01-01")), ..nothing() }, "startDate"),
        (RecurringInvoiceChange { customer_id: Some("cus_1".into()), ..nothing() }, "customerId"),
    ] {
        let mut recurring = existing().expect("dates");
        let error = recurring.change(change, day("2026-05-04")).expect_err(expected);
        assert_eq!(invalid_field(error), expected);
        assert_eq!(recurring.end_date, Some(day("2026-12-31")), "nothing was changed");
    }
    // Without a day of the month in the cadence, the last day of the month is allowed.
    let change = RecurringInvoiceChange {
        cadence: Some(cadence(Unit::Month, 1, None)),
        last_day_of_month: Some(true),
        ..nothing()
    };
    let mut recurring = existing().expect("dates");
    recurring.change(change, day("2026-05-04")).expect("a change");
    assert_eq!((recurring.anchor, recurring.cadence.last_day_of_month()), (day("2026-05-31"), true));
    // It stays set until it is cleared.
    let days = RecurringInvoiceChange { cadence: Some(cadence(Unit::Day, 1, None)), ..nothing() };
    assert_eq!(invalid_field(recurring.change(days, day("2026-05-04")).expect_err("both")), "lastDayOfMonth");
    let days = RecurringInvoiceChange {
        cadence: Some(cadence(Unit::Day, 1, None)),
        last_day_of_month: Some(false),
        ..nothing()
    };
    recurring.change(days, day("2026-05-04")).expect("a change");
}

#[test]
fn an_ended_recurring_invoice_rejects_valid_changes() {
    for status in [Status::Completed, Status::Cancelled] {
        let mut recurring = create("2026-01-01", cadence(Unit::Month, 1, None), None, None).expect("dates");
        recurring.stop(status);
        let result = recurring.change(RecurringInvoiceChange::default(), day("2026-05-04"));
        assert!(matches!(result, Err(Error::Conflict(_))), "{result:?}");
        let invalid = RecurringInvoiceChange { customer_id: Some("x".into()), ..RecurringInvoiceChange::default() };
        assert_eq!(invalid_field(recurring.change(invalid, day("2026-05-04")).expect_err("invalid")), "customerId");
    }
}

#[test]
fn the_third_consecutive_failure_parks() {
    let mut recurring = create("2026-11-21", cadence(Unit::Month, 1, None), None, None).expect("dates");
    let now = noon("2026-11-21");
    for (count, after) in [(1, 1), (2, 6)] {
        recurring.fail(now);
        let next = recurring.next.expect("a retry");
        assert_eq!(next, Next { date: day("2026-11-21"), run_at: now.plus(Duration::from_secs(after * 3600)) });
        assert_eq!((recurring.status, recurring.failure_count), (Status::Active, count));
    }
    recurring.fail(now);
    assert_eq!((recurring.status, recurring.failure_count, recurring.next), (Status::Parked, 3, None));

    let cycle = recurring.schedule().expect("dates").on_or_after(day("2026-11-22"));
    recurring.set_next_cycle(cycle, &new_york());
    assert_eq!((recurring.status, recurring.failure_count), (Status::Active, 0));
    assert_eq!(recurring.next.map(|next| next.date), Some(day("2026-12-21")));
    recurring.fail(now);
    recurring.set_next_cycle(cycle, &new_york());
    recurring.fail(now);
    recurring.fail(now);
    assert_eq!(recurring.status, Status::Active, "a success resets the failure count");
    recurring.set_next_cycle(None, &new_york());
    assert_eq!((recurring.status, recurring.next, recurring.failure_count), (Status::Completed, None, 0));
}

//! A recurring invoice never bills a day twice, however its dates change.

use std::time::Duration;

use proptest::prelude::*;
use testkit::fuzz::check_cases;

use super::{Fixture, at, rent};
use crate::create_recurring_invoice;
use crate::resume_recurring_invoice;
use crate::run_due_recurring_invoices;
use crate::update_recurring_invoice;
use domain::accounts::{Caller, Scope};
use domain::recurring_invoices::{self, RecurringInvoice, RecurringInvoiceChange, SentCadence};
use foundation::calendar::{Date, TimeZone, Unit};
use foundation::error::Error;
use foundation::id::RecurringInvoiceId;
use foundation::time::Timestamp;

const DAY: Duration = Duration::from_secs(24 * 3600);
const SEQUENCES: u32 = 60;
const ZONES: [&str; 4] = ["UTC", "America/New_York", "Pacific/Kiritimati", "Pacific/Pago_Pago"];

/// An action of the merchant or an operator, or the passing of time.
#[derive(Clone, Debug)]
enum Step {
    Cadence { unit: Unit, interval: i64, day_of_month: Option<i64>, last_day: bool },
    Start { days: i64 },
    End { days: i64 },
    Zone(&'static str),
    Pause,
    Resume,
    Run,
    Later { days: u32 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let unit = prop_oneof![Just(Unit::Day), Just(Unit::Week), Just(Unit::Month), Just(Unit::Year)];
    let cadence = (unit, 1_i64..=3, proptest::option::of(1_i64..=31), any::<bool>());
    let step = prop_oneof![
        4 => cadence.prop_map(|(unit, interval, day, last)| {
            let of_months = matches!(unit, Unit::Month | Unit::Year);
            let last_day = last && of_months;
            let day_of_month = day.filter(|_| of_months && !last_day);
            Step::Cadence { unit, interval, day_of_month, last_day }
        }),
        1 => (-40_i64..40).prop_map(|days| Step::Start { days }),
        1 => (60_i64..800).prop_map(|days| Step::End { days }),
        1 => proptest::sample::select(ZONES.to_vec()).prop_map(Step::Zone),
        1 => Just(Step::Pause),
        2 => Just(Step::Resume),
        6 => Just(Step::Run),
        2 => (1_u32..40).prop_map(|days| Step::Later { days }),
    ];
    proptest::collection::vec(step, 1..30)
}

/// A recurring invoice and its account's time.
struct Billed<'a> {
    fixture: &'a Fixture,
    caller: &'a Caller,
    id: RecurringInvoiceId,
    now: Timestamp,
}

impl Billed<'_> {
    async fn apply(&mut self, step: &Step) {
        let today = self.zone().await.date_at(self.now);
        let in_days = |days: i64| today.plus_days(days);
        let change = match step {
            Step::Cadence { unit, interval, day_of_month, last_day } => RecurringInvoiceChange {
                cadence: Some(SentCadence { unit: *unit, interval: *interval, day_of_month: *day_of_month }),
                last_day_of_month: Some(*last_day),
                ..RecurringInvoiceChange::default()
            },
            Step::Start { days } => {
                RecurringInvoiceChange { start_date: in_days(*days), ..RecurringInvoiceChange::default() }
            }
            Step::End { days } => {
                RecurringInvoiceChange { end_date: in_days(*days), ..RecurringInvoiceChange::default() }
            }
            Step::Zone(zone) => {
                let write = "UPDATE accounts SET timezone = $2 WHERE id = $1";
                let write = sqlx::query(write).bind(self.caller.account_id.uuid()).bind(*zone);
                write.execute(&*self.fixture.db).await.expect("a zone");
                return;
            }
            Step::Pause => {
                let paused =
                    recurring_invoices::pause(&self.fixture.db, self.caller.account_id, self.id, self.now).await;
                return assert_ok_or_refused(paused);
            }
            Step::Resume => {
                let resumed = resume_recurring_invoice(&self.fixture.db, self.caller, self.id, self.now).await;
                return assert_ok_or_refused(resumed);
            }
            Step::Run => return self.run().await,
            Step::Later { days } => {
                self.now = self.now.plus(DAY * *days);
                return;
            }
        };
        assert_ok_or_refused(self.change(change).await);
    }

    async fn change(&self, change: RecurringInvoiceChange) -> Result<RecurringInvoice, Error> {
        update_recurring_invoice(&self.fixture.db, self.caller, self.id, change, self.now).await
    }

    /// Runs all due cycles.
    async fn run(&self) {
        let scope = Scope::Account(self.caller.account_id, self.now);
        while run_due_recurring_invoices(&self.fixture.db, scope, 10).await.expect("a run") > 0 {}
    }

    async fn zone(&self) -> TimeZone {
        domain::accounts::timezone(&*self.fixture.db, self.caller.account_id).await.expect("a zone")
    }

    /// The billed days, in the order in which the invoices were created.
    async fn days(&self) -> Vec<Date> {
        let query = "SELECT left(billing_period, 10) FROM invoices WHERE recurring_invoice_id = $1 ORDER BY number";
        let days: Vec<String> =
            sqlx::query_scalar(query).bind(self.id.uuid()).fetch_all(&*self.fixture.db).await.expect("invoices");
        days.iter().map(|day| day.parse().expect("a day")).collect()
    }

    async fn assert_consistent(&self) {
        let days = self.days().await;
        assert!(days.is_sorted_by(|one, next| one < next), "{days:?}");
        let shown = recurring_invoices::retrieve(&self.fixture.db, self.caller.account_id, self.id)
            .await
            .expect("the recurring invoice");
        let next = shown.next.map(|next| next.date);
        assert!(next.is_none_or(|next| days.last().is_none_or(|last| next > *last)), "{next:?} after {days:?}");
        assert_eq!(usize::try_from(shown.occurrence_count), Ok(days.len()));
    }
}

/// Requests may be refused, depending on earlier steps; other errors are failures.
fn assert_ok_or_refused<T>(done: Result<T, Error>) {
    match done {
        Ok(_) | Err(Error::Conflict(_) | Error::Invalid { .. }) => {}
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn changing_the_cadence_on_a_day_bills_it_once() {
    let now = at("2027-01-10T09:00:00Z");
    let fixture = Fixture::open().await;
    let caller = fixture.account(now).await;
    let new = rent(fixture.customer(&caller, now).await, Unit::Day, None);
    let id = create_recurring_invoice(&fixture.db, &caller, new, None, now).await.expect("dates").into_new().id;
    let billed = Billed { fixture: &fixture, caller: &caller, id, now };
    billed.run().await;
    for (unit, interval) in [(Unit::Week, 1), (Unit::Month, 1), (Unit::Year, 1), (Unit::Day, 2), (Unit::Week, 2)] {
        let cadence = Some(SentCadence { unit, interval, day_of_month: None });
        let changed = billed.change(RecurringInvoiceChange { cadence, ..RecurringInvoiceChange::default() }).await;
        assert!(changed.expect("another cadence").next.is_some_and(|next| next.date > "2027-01-10".parse().unwrap()));
        billed.run().await;
    }
    assert_eq!(billed.days().await, ["2027-01-10".parse().expect("a day")]);
    billed.assert_consistent().await;
}

#[test]
fn billed_days_are_strictly_increasing() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let created = at("2026-01-20T12:00:00Z");
    let (fixture, caller) = runtime.block_on(async {
        let fixture = Fixture::open().await;
        let caller = fixture.account(created).await;
        (fixture, caller)
    });
    check_cases(SEQUENCES, steps(), |steps| {
        runtime.block_on(async {
            let new = rent(fixture.customer(&caller, created).await, Unit::Day, None);
            let id =
                create_recurring_invoice(&fixture.db, &caller, new, None, created).await.expect("dates").into_new().id;
            let mut billed = Billed { fixture: &fixture, caller: &caller, id, now: created };
            for step in &steps {
                billed.apply(step).await;
                billed.assert_consistent().await;
            }
            let cancelled = recurring_invoices::cancel(&fixture.db, caller.account_id, id, billed.now).await;
            cancelled.expect("cancelled");
        });
    });
}

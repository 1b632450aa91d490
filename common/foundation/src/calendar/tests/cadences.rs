//! Cadences and schedules of recurring invoices.

use proptest::prelude::*;

use super::super::{Cadence, Date, MAX_INTERVAL, Schedule, Unit};
use super::naive::{self, Day};
use super::{check, date};
use crate::error::Error;

fn cadence(unit: &str, interval: i64, day_of_month: Option<i64>, last: bool) -> Cadence {
    Cadence::parse(unit, interval, day_of_month, last).expect("a cadence")
}

#[test]
fn valid_combinations_are_accepted() {
    let (day_units, month_units) = ([Unit::Day, Unit::Week], [Unit::Month, Unit::Year]);
    for unit in day_units.into_iter().chain(month_units) {
        for interval in [1, 2, 36] {
            let parsed = cadence(Cadence::unit_name(unit), interval, None, false);
            assert_eq!((parsed.unit(), i64::from(parsed.interval())), (unit, interval));
            assert_eq!((parsed.day_of_month(), parsed.last_day_of_month()), (None, false));
        }
    }
    for unit in month_units.map(Cadence::unit_name) {
        for day in [1, 28, 29, 31] {
            let parsed = cadence(unit, 1, Some(day), false);
            assert_eq!((parsed.day_of_month().map(i64::from), parsed.last_day_of_month()), (Some(day), false));
        }
        let parsed = cadence(unit, 1, None, true);
        assert_eq!((parsed.day_of_month(), parsed.last_day_of_month()), (None, true));
    }
}

#[test]
fn invalid_combinations_are_rejected_by_field() {
    let invalid = [
        ("", 1, None, false, "cadence.unit"),
        ("Monthly", 1, None, false, "cadence.unit"),
        ("month", 0, Some(0), true, "cadence.unit"),
        ("monthly", 0, None, false, "cadence.interval"),
        ("monthly", 37, None, false, "cadence.interval"),
        ("daily", -1, None, false, "cadence.interval"),
        ("yearly", 257, None, false, "cadence.interval"),
        ("monthly", 1, Some(0), false, "cadence.dayOfMonth"),
        ("monthly", 1, Some(32), false, "cadence.dayOfMonth"),
        ("yearly", 1, Some(257), false, "cadence.dayOfMonth"),
        ("yearly", 1, Some(-1), false, "cadence.dayOfMonth"),
        ("daily", 1, Some(1), false, "cadence.dayOfMonth"),
        ("weekly", 1, Some(1), false, "cadence.dayOfMonth"),
        ("weekly", 1, Some(1), true, "cadence.dayOfMonth"),
        ("daily", 1, None, true, "lastDayOfMonth"),
        ("weekly", 1, None, true, "lastDayOfMonth"),
        ("monthly", 1, Some(31), true, "lastDayOfMonth"),
        ("yearly", 1, Some(1), true, "lastDayOfMonth"),
    ];
    for (unit, interval, day, last, field) in invalid {
        match Cadence::parse(unit, interval, day, last) {
            Err(Error::Invalid { param, .. }) => assert_eq!(param, field, "{unit} {interval} {day:?} {last}"),
            other => panic!("{unit} {interval} {day:?} {last} gave {other:?}"),
        }
    }
}

#[test]
fn dates_are_counted_from_the_first_matching_day() {
    let tables = [
        (cadence("monthly", 1, None, false), "2026-01-31", ["2026-01-31", "2026-02-28", "2026-03-31", "2026-04-30"]),
        (
            cadence("monthly", 1, Some(31), false),
            "2026-02-01",
            ["2026-02-28", "2026-03-31", "2026-04-30", "2026-05-31"],
        ),
        (
            cadence("monthly", 1, Some(30), false),
            "2026-01-31",
            ["2026-02-28", "2026-03-30", "2026-04-30", "2026-05-30"],
        ),
        (
            cadence("monthly", 1, Some(29), false),
            "2027-12-30",
            ["2028-01-29", "2028-02-29", "2028-03-29", "2028-04-29"],
        ),
        (
            cadence("monthly", 3, Some(15), false),
            "2026-01-15",
            ["2026-01-15", "2026-04-15", "2026-07-15", "2026-10-15"],
        ),
        (
            cadence("monthly", 3, Some(15), false),
            "2026-01-16",
            ["2026-02-15", "2026-05-15", "2026-08-15", "2026-11-15"],
        ),
        (cadence("monthly", 1, Some(1), false), "2026-11-02", ["2026-12-01", "2027-01-01", "2027-02-01", "2027-03-01"]),
        (cadence("monthly", 1, None, true), "2026-01-30", ["2026-01-31", "2026-02-28", "2026-03-31", "2026-04-30"]),
        (cadence("monthly", 2, None, true), "2027-12-31", ["2027-12-31", "2028-02-29", "2028-04-30", "2028-06-30"]),
        // A yearly cadence uses the month of the start, so its first date may be most of a year away.
        (cadence("yearly", 1, Some(15), false), "2026-03-20", ["2027-03-15", "2028-03-15", "2029-03-15", "2030-03-15"]),
        (cadence("yearly", 2, Some(20), false), "2026-03-15", ["2026-03-20", "2028-03-20", "2030-03-20", "2032-03-20"]),
        (cadence("yearly", 1, Some(31), false), "2026-02-10", ["2026-02-28", "2027-02-28", "2028-02-29", "2029-02-28"]),
        (cadence("yearly", 1, None, true), "2027-02-28", ["2027-02-28", "2028-02-29", "2029-02-28", "2030-02-28"]),
        (cadence("yearly", 1, None, false), "2028-02-29", ["2028-02-29", "2029-02-28", "2030-02-28", "2031-02-28"]),
        (cadence("yearly", 4, None, false), "2028-02-29", ["2028-02-29", "2032-02-29", "2036-02-29", "2040-02-29"]),
        (cadence("weekly", 2, None, false), "2026-12-24", ["2026-12-24", "2027-01-07", "2027-01-21", "2027-02-04"]),
        (cadence("daily", 36, None, false), "2026-12-20", ["2026-12-20", "2027-01-25", "2027-03-02", "2027-04-07"]),
    ];
    for (cadence, start, dates) in tables {
        let schedule = Schedule::new(&cadence, date(start), None).expect("a schedule");
        let mut after = date(start);
        for expected in dates {
            let cycle = schedule.on_or_after(after).expect("no end");
            assert_eq!(cycle.start(), date(expected), "{cadence:?} from {start}");
            after = cycle.end();
        }
    }
}

#[test]
fn schedules_end_with_their_last_day_and_skip_past_cycles() {
    let quarterly = cadence("monthly", 3, Some(15), false);
    let schedule = Schedule::new(&quarterly, date("2026-01-10"), Some(date("2026-07-15"))).expect("a schedule");
    let on_or_after = |day| schedule.on_or_after(date(day)).map(|cycle| cycle.to_string());
    assert_eq!(on_or_after("2025-01-01").as_deref(), Some("2026-01-15/2026-04-14"), "no cycle before the start");
    assert_eq!(on_or_after("2026-04-15").as_deref(), Some("2026-04-15/2026-07-14"));
    // Resumed on 1 May: the April cycle is skipped, and the quarters do not move.
    assert_eq!(on_or_after("2026-05-01").as_deref(), Some("2026-07-15/2026-10-14"), "the period passes the end");
    assert_eq!(on_or_after("2026-07-16"), None);
    let ended = Schedule::new(&quarterly, date("2026-01-10"), Some(date("2026-01-14"))).expect("a schedule");
    assert_eq!((ended.anchor(), ended.on_or_after(date("2026-01-10"))), (date("2026-01-15"), None));
}

#[test]
fn a_changed_cadence_counts_from_today() {
    let on =
        |day, today: &str| Schedule::new(&cadence("monthly", 2, Some(day), false), date(today), None).expect("dates");
    let before = on(5, "2026-04-01").on_or_after(date("2026-04-01")).expect("no end");
    let after = on(15, "2026-04-10").on_or_after(date("2026-04-10")).expect("no end");
    assert_eq!(
        (before.to_string(), after.to_string()),
        ("2026-04-05/2026-06-04".into(), "2026-04-15/2026-06-14".into())
    );
}

#[test]
fn no_cycle_extends_past_the_calendar() {
    let on_15th = cadence("monthly", 1, Some(15), false);
    assert_eq!(Schedule::new(&on_15th, date("9999-12-16"), None), None);
    let schedule = Schedule::new(&on_15th, date("9999-11-01"), None).expect("a schedule");
    assert!(schedule.on_or_after(date("9999-11-15")).is_some());
    assert_eq!(schedule.on_or_after(date("9999-11-16")), None, "the cycle has no end within the calendar");
    let daily = Schedule::new(&cadence("daily", 1, None, false), Date::MAX, None).expect("a schedule");
    assert_eq!(daily.on_or_after(Date::MAX), None);
}

/// The requested day of the month.
#[derive(Clone, Copy, Debug)]
enum DayOption {
    Unset,
    Day(i32),
    Last,
}

/// Every `interval`-th matching day, found by checking each day from the start.
fn naive_dates(unit: Unit, interval: usize, option: DayOption, start: Day, limit: usize) -> Vec<Day> {
    let day_of_month = match option {
        DayOption::Unset => start.day,
        DayOption::Day(day) => day,
        DayOption::Last => 31,
    };
    let (mut day, mut passed, mut matched, mut dates) = (start, 0, 0, Vec::new());
    while dates.len() < limit {
        let is_day = day.day == day_of_month.min(naive::length(day.year, day.month));
        let matches = match unit {
            Unit::Day => true,
            Unit::Week => passed % 7 == 0,
            Unit::Month => is_day,
            Unit::Year => is_day && day.month == start.month,
        };
        if matches {
            if matched % interval == 0 {
                dates.push(day);
            }
            matched += 1;
        }
        passed += 1;
        day = day.next();
    }
    dates
}

#[test]
fn schedules_match_the_naive_calendar() {
    let units = prop::sample::select(Unit::ALL.to_vec());
    let options = prop_oneof![Just(DayOption::Unset), Just(DayOption::Last), (1..=31).prop_map(DayOption::Day)];
    let intervals = prop_oneof![1..=3u8, 1..=MAX_INTERVAL];
    let inputs = (units, intervals, options, naive::days(1890..2110), 0..6usize);
    check(400, inputs, |(unit, interval, option, start, last)| {
        let option = if matches!(unit, Unit::Day | Unit::Week) { DayOption::Unset } else { option };
        let dates = naive_dates(unit, interval.into(), option, start, 6);
        let (day, last_day) = match option {
            DayOption::Unset => (None, false),
            DayOption::Day(day) => (Some(day.into()), false),
            DayOption::Last => (None, true),
        };
        let cadence = cadence(Cadence::unit_name(unit), interval.into(), day, last_day);
        let endless = Schedule::new(&cadence, start.date(), None).expect("a schedule");
        assert_eq!(endless.anchor(), dates[0].date(), "the first matching day");
        let from_anchor = Schedule::new(&cadence, endless.anchor(), None);
        assert_eq!(from_anchor, Some(endless), "the anchor and the start give the same schedule");

        // The schedule ends on the date of a cycle, or the day before.
        for end in [dates[last], dates[last].previous()] {
            let schedule = Schedule::new(&cadence, start.date(), Some(end.date())).expect("a schedule");
            for (day, next) in dates.iter().zip(&dates[1..]) {
                for from in [day.previous(), *day, day.next(), next.previous()] {
                    let cycle = dates.iter().zip(&dates[1..]).find(|(date, _)| **date >= from);
                    // The date after the last one was not computed.
                    let Some((first, next)) = cycle else { continue };
                    let expected = format!("{}/{}", first.date(), next.previous().date());
                    let (with_end, without) = (schedule.on_or_after(from.date()), endless.on_or_after(from.date()));
                    assert_eq!(
                        without.map(|cycle| cycle.to_string()).as_ref(),
                        Some(&expected),
                        "on or after {from:?}"
                    );
                    assert_eq!(with_end, without.filter(|_| *first <= end), "on or after {from:?} until {end:?}");
                }
            }
        }
    });
}

//! Cadences of recurring invoices.

use proptest::prelude::*;

use super::super::{Cadence, Date, MAX_INTERVAL, Schedule, Unit};
use super::naive::{self, Day};
use super::{check, date};
use crate::error::Error;

fn cadence(unit: &str, interval: i64, day_of_month: Option<i64>, last: bool) -> Cadence {
    Cadence::parse(unit, interval, day_of_month, last).expect("a cadence")
}

#[test]
fn a_cadence_is_made_of_what_goes_together() {
    let (of_days, of_months) = ([Unit::Day, Unit::Week], [Unit::Month, Unit::Year]);
    for unit in of_days.into_iter().chain(of_months) {
        for interval in [1, 2, 36] {
            let parsed = cadence(Cadence::unit_name(unit), interval, None, false);
            assert_eq!((parsed.unit(), i64::from(parsed.interval())), (unit, interval));
            assert_eq!((parsed.day_of_month(), parsed.last_day_of_month()), (None, false));
        }
    }
    for unit in of_months.map(Cadence::unit_name) {
        for day in [1, 28, 29, 31] {
            let parsed = cadence(unit, 1, Some(day), false);
            assert_eq!((parsed.day_of_month().map(i64::from), parsed.last_day_of_month()), (Some(day), false));
        }
        let parsed = cadence(unit, 1, None, true);
        assert_eq!((parsed.day_of_month(), parsed.last_day_of_month()), (None, true));
    }
}

#[test]
fn what_does_not_go_together_names_the_field_at_fault() {
    let refused = [
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
    for (unit, interval, day, last, at_fault) in refused {
        match Cadence::parse(unit, interval, day, last) {
            Err(Error::Invalid { param, .. }) => assert_eq!(param, at_fault, "{unit} {interval} {day:?} {last}"),
            other => panic!("{unit} {interval} {day:?} {last} gave {other:?}"),
        }
    }
}

#[test]
fn dates_are_counted_from_the_first_day_that_matches() {
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
        // The month of a year is that of the start, so its day may be most of a year away.
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
fn a_schedule_ends_with_its_last_day_and_skips_what_has_passed() {
    let quarterly = cadence("monthly", 3, Some(15), false);
    let schedule = Schedule::new(&quarterly, date("2026-01-10"), Some(date("2026-07-15"))).expect("a schedule");
    let on_or_after = |day| schedule.on_or_after(date(day)).map(|cycle| cycle.to_string());
    assert_eq!(on_or_after("2025-01-01").as_deref(), Some("2026-01-15/2026-04-14"), "none before the start");
    assert_eq!(on_or_after("2026-04-15").as_deref(), Some("2026-04-15/2026-07-14"));
    // Resumed on 1 May: April is over, and the quarters stay where they were.
    assert_eq!(on_or_after("2026-05-01").as_deref(), Some("2026-07-15/2026-10-14"), "the end does not cut the period");
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
fn no_cycle_reaches_beyond_the_calendar() {
    let on_15th = cadence("monthly", 1, Some(15), false);
    assert_eq!(Schedule::new(&on_15th, date("9999-12-16"), None), None);
    let schedule = Schedule::new(&on_15th, date("9999-11-01"), None).expect("a schedule");
    assert!(schedule.on_or_after(date("9999-11-15")).is_some());
    assert_eq!(schedule.on_or_after(date("9999-11-16")), None, "the next date is unknown, so where it ends is too");
    let daily = Schedule::new(&cadence("daily", 1, None, false), Date::MAX, None).expect("a schedule");
    assert_eq!(daily.on_or_after(Date::MAX), None);
}

/// Which day of the month is asked for.
#[derive(Clone, Copy, Debug)]
enum Asked {
    Nothing,
    Day(i32),
    Last,
}

/// Every `interval`-th of the days that match, by looking at each day from the start on.
fn walked(unit: Unit, interval: usize, asked: Asked, start: Day, how_many: usize) -> Vec<Day> {
    let day_of_month = match asked {
        Asked::Nothing => start.day,
        Asked::Day(day) => day,
        Asked::Last => 31,
    };
    let (mut day, mut passed, mut matched, mut dates) = (start, 0, 0, Vec::new());
    while dates.len() < how_many {
        let right_day = day.day == day_of_month.min(naive::length(day.year, day.month));
        let matches = match unit {
            Unit::Day => true,
            Unit::Week => passed % 7 == 0,
            Unit::Month => right_day,
            Unit::Year => right_day && day.month == start.month,
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
fn schedules_are_those_that_are_found_by_looking_at_every_day() {
    let units = prop::sample::select(Unit::ALL.to_vec());
    let asked = prop_oneof![Just(Asked::Nothing), Just(Asked::Last), (1..=31).prop_map(Asked::Day)];
    let intervals = prop_oneof![1..=3u8, 1..=MAX_INTERVAL];
    let inputs = (units, intervals, asked, naive::days(1890..2110), 0..6usize);
    check(400, inputs, |(unit, interval, asked, start, last)| {
        let asked = if matches!(unit, Unit::Day | Unit::Week) { Asked::Nothing } else { asked };
        let walked = walked(unit, interval.into(), asked, start, 6);
        let (day, last_day) = match asked {
            Asked::Nothing => (None, false),
            Asked::Day(day) => (Some(day.into()), false),
            Asked::Last => (None, true),
        };
        let cadence = cadence(Cadence::unit_name(unit), interval.into(), day, last_day);
        let endless = Schedule::new(&cadence, start.date(), None).expect("a schedule");
        assert_eq!(endless.anchor(), walked[0].date(), "the first day that matches");
        let again = Schedule::new(&cadence, endless.anchor(), None);
        assert_eq!(again, Some(endless), "the anchor gives the schedule as the start does");

        // It ends on the date of a cycle, or a day before.
        for end in [walked[last], walked[last].previous()] {
            let schedule = Schedule::new(&cadence, start.date(), Some(end.date())).expect("a schedule");
            for (day, next) in walked.iter().zip(&walked[1..]) {
                for asked in [day.previous(), *day, day.next(), next.previous()] {
                    let found = walked.iter().zip(&walked[1..]).find(|(walked, _)| **walked >= asked);
                    // The last date's next one was not walked to.
                    let Some((first, next)) = found else { continue };
                    let expected = format!("{}/{}", first.date(), next.previous().date());
                    let (with_end, without) = (schedule.on_or_after(asked.date()), endless.on_or_after(asked.date()));
                    assert_eq!(
                        without.map(|cycle| cycle.to_string()).as_ref(),
                        Some(&expected),
                        "on or after {asked:?}"
                    );
                    assert_eq!(with_end, without.filter(|_| *first <= end), "on or after {asked:?} until {end:?}");
                }
            }
        }
    });
}

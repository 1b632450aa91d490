//! Cycles of subscriptions.

use proptest::prelude::*;

use super::super::{Cycles, Date, Unit};
use super::naive::{self, Day};
use super::{check, date};

/// Asserts the first dates of the cycles of an anchor.
fn assert_dates(anchor: &str, unit: Unit, count: i32, dates: &[&str]) {
    let cycles = Cycles::new(date(anchor), unit, count).expect("a count");
    for (n, expected) in (0..).zip(dates) {
        assert_eq!(cycles.nth(n), Some(date(expected)), "{n} × {count} {unit:?} after {anchor}");
        assert_eq!(
            cycles.first_on_or_after(date(expected)),
            n,
            "the cycle of {expected}, {count} {unit:?} after {anchor}"
        );
    }
}

#[test]
fn day_31_returns_after_shorter_months() {
    assert_dates(
        "2026-01-31",
        Unit::Month,
        1,
        &[
            "2026-01-31",
            "2026-02-28",
            "2026-03-31",
            "2026-04-30",
            "2026-05-31",
            "2026-06-30",
            "2026-07-31",
            "2026-08-31",
            "2026-09-30",
            "2026-10-31",
            "2026-11-30",
            "2026-12-31",
            "2027-01-31",
            "2027-02-28",
            "2027-03-31",
        ],
    );
    assert_dates("2027-12-29", Unit::Month, 2, &["2027-12-29", "2028-02-29", "2028-04-29"]);
    assert_dates("2026-12-30", Unit::Month, 1, &["2026-12-30", "2027-01-30", "2027-02-28", "2027-03-30"]);
    assert_dates("2026-08-31", Unit::Month, 6, &["2026-08-31", "2027-02-28", "2027-08-31", "2028-02-29", "2028-08-31"]);
}

#[test]
fn february_29_returns_in_every_leap_year() {
    assert_dates(
        "2024-02-29",
        Unit::Year,
        1,
        &[
            "2024-02-29",
            "2025-02-28",
            "2026-02-28",
            "2027-02-28",
            "2028-02-29",
            "2029-02-28",
            "2030-02-28",
            "2031-02-28",
            "2032-02-29",
        ],
    );
    assert_dates("2096-02-29", Unit::Year, 4, &["2096-02-29", "2100-02-28", "2104-02-29"]);
    assert_dates(
        "2024-02-29",
        Unit::Month,
        12,
        &["2024-02-29", "2025-02-28", "2026-02-28", "2027-02-28", "2028-02-29"],
    );
}

#[test]
fn days_and_weeks_ignore_month_lengths() {
    assert_dates("2024-02-28", Unit::Day, 1, &["2024-02-28", "2024-02-29", "2024-03-01"]);
    assert_dates("2026-12-24", Unit::Week, 2, &["2026-12-24", "2027-01-07", "2027-01-21"]);
    assert_dates("2026-12-24", Unit::Day, 14, &["2026-12-24", "2027-01-07", "2027-01-21"]);
    assert_dates("2026-01-01", Unit::Day, 1095, &["2026-01-01", "2028-12-31", "2031-12-31"]);
}

#[test]
fn periods_display_their_first_and_last_day() {
    let cycles = Cycles::new(date("2026-01-31"), Unit::Month, 1).expect("a count");
    let displayed = |n| cycles.period(n).map(|period| period.to_string());
    assert_eq!(displayed(0).as_deref(), Some("2026-01-31/2026-02-27"));
    assert_eq!(displayed(1).as_deref(), Some("2026-02-28/2026-03-30"));
    let daily = Cycles::new(date("2026-02-28"), Unit::Day, 1).expect("a count");
    assert_eq!(daily.period(0).map(|period| period.to_string()).as_deref(), Some("2026-02-28/2026-02-28"));
}

#[test]
fn cycles_end_with_the_calendar_and_need_a_positive_count() {
    for count in [0, -1, i32::MIN] {
        assert_eq!(Cycles::new(date("2026-01-31"), Unit::Day, count), None);
    }
    let yearly = Cycles::new(date("9997-12-31"), Unit::Year, 1).expect("a count");
    assert_eq!((yearly.nth(2), yearly.nth(3)), (Some(Date::MAX), None));
    assert!(yearly.period(1).is_some() && yearly.period(2).is_none());
    for unit in Unit::ALL {
        let rare = Cycles::new(Date::MIN, unit, i32::MAX).expect("a count");
        assert_eq!((rare.nth(0), rare.nth(1), rare.nth(u32::MAX)), (Some(Date::MIN), None, None));
        assert_eq!((rare.first_on_or_after(Date::MAX), rare.period(u32::MAX)), (1, None));
    }
    let daily = Cycles::new(Date::MIN, Unit::Day, 1).expect("a count");
    assert_eq!(daily.first_on_or_after(Date::MAX), 3_652_424);
    assert_eq!(daily.nth(3_652_424), Some(Date::MAX));
}

/// The first dates, found by stepping through every day or month.
fn naive_dates(anchor: Day, unit: Unit, count: i32, limit: usize) -> Vec<Day> {
    let (mut day, mut dates) = (anchor, Vec::new());
    let (mut year, mut month) = (anchor.year, anchor.month);
    while dates.len() < limit {
        dates.push(day);
        let steps = match unit {
            Unit::Day | Unit::Month => count,
            Unit::Week => 7 * count,
            Unit::Year => 12 * count,
        };
        for _ in 0..steps {
            if matches!(unit, Unit::Day | Unit::Week) {
                day = day.next();
            } else {
                (year, month) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
                day = Day::in_month(year, month, anchor.day);
            }
        }
    }
    dates
}

#[test]
fn cycles_match_the_naive_calendar() {
    let units = prop::sample::select(Unit::ALL.to_vec());
    let counts = prop_oneof![1..=3, 1..=40];
    check(600, (naive::days(1890..2110), units, counts), |(anchor, unit, count)| {
        let expected = naive_dates(anchor, unit, count, 30);
        let cycles = Cycles::new(anchor.date(), unit, count).expect("a count");
        assert_eq!(cycles.anchor(), anchor.date());
        for (n, pair) in (0..).zip(expected.windows(2)) {
            let [day, next] = pair else { unreachable!("windows of two") };
            assert_eq!(cycles.nth(n), Some(day.date()), "cycle {n}");
            let period = cycles.period(n).expect("far from the end");
            assert_eq!((period.start(), period.end()), (day.date(), next.date()), "ends where the next one starts");
            assert!(period.start() < period.end());
            assert_eq!(period.to_string(), format!("{}/{}", day.date(), next.previous().date()));
            for from in [day.previous(), *day, day.next(), next.previous()] {
                let position = expected.iter().position(|day| *day >= from).expect("`next` is not earlier");
                assert_eq!(cycles.first_on_or_after(from.date()) as usize, position, "on or after {from:?}");
            }
        }
    });
}

//! Parsing of arbitrary texts as dates, time zones and cadences.

use proptest::prelude::*;
use testkit::fuzz::{mutated, texts};

use super::super::{Cadence, TimeZone, Unit};
use super::{Date, check};
use crate::error::Error;

#[test]
fn dates_round_trip_through_text() {
    check(500, prop_oneof![mutated("2026-02-28"), mutated("2028-02-29"), mutated("9999-12-31"), texts()], |text| {
        if let Ok(day) = text.parse::<Date>() {
            assert_eq!(day.to_string(), text);
            assert!((Date::MIN..=Date::MAX).contains(&day));
        }
    });
}

#[test]
fn zones_have_the_requested_name_ignoring_case() {
    let names = prop_oneof![
        mutated("America/New_York"),
        mutated("utc"),
        mutated("../../etc/passwd"),
        mutated("/usr/share/zoneinfo/UTC"),
        texts(),
    ];
    check(500, names, |text| {
        if let Ok(zone) = text.parse::<TimeZone>() {
            assert!(zone.name().eq_ignore_ascii_case(&text), "{text:?} is {zone:?}");
            let allowed = |c: char| c.is_ascii_alphanumeric() || "_+-/".contains(c);
            assert!(text.chars().all(allowed) && !text.starts_with('/'), "{text:?} does not match the pattern");
        }
    });
}

#[test]
fn cadences_are_valid_or_rejected_by_field() {
    let units =
        prop_oneof![3 => proptest::sample::select(vec!["daily", "weekly", "monthly", "yearly"]), 1 => Just("day")];
    let numbers = || prop_oneof![3 => -2..40i64, 1 => any::<i64>()];
    let inputs = (units, numbers(), proptest::option::of(numbers()), any::<bool>());
    check(500, inputs, |(unit, interval, day, last)| match Cadence::parse(unit, interval, day, last) {
        Ok(_) => {
            assert!((1..=36).contains(&interval) && day.is_none_or(|day| (1..=31).contains(&day)));
            assert!(!(last && day.is_some()) && Unit::ALL.into_iter().any(|valid| Cadence::unit_name(valid) == unit));
        }
        Err(Error::Invalid { param, .. }) => {
            assert!(["cadence.unit", "cadence.interval", "cadence.dayOfMonth", "lastDayOfMonth"].contains(&&*param));
        }
        Err(other) => panic!("{other}"),
    });
}

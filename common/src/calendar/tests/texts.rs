//! What is read as a day or a zone, of whatever text.

use proptest::prelude::*;
use testkit::fuzz::{mutated, texts};

use super::super::{Cadence, TimeZone, Unit};
use super::{Date, check};
use crate::error::Error;

#[test]
fn a_day_has_one_spelling() {
    check(500, prop_oneof![mutated("2026-02-28"), mutated("2028-02-29"), mutated("9999-12-31"), texts()], |text| {
        if let Ok(day) = text.parse::<Date>() {
            assert_eq!(day.to_string(), text);
            assert!((Date::MIN..=Date::MAX).contains(&day));
        }
    });
}

#[test]
fn a_zone_has_the_name_it_was_asked_by_in_any_case() {
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
            let plain = |c: char| c.is_ascii_alphanumeric() || "_+-/".contains(c);
            assert!(text.chars().all(plain) && !text.starts_with('/'), "{text:?} is not within its pattern");
        }
    });
}

#[test]
fn a_cadence_goes_together_or_its_field_is_named() {
    let units =
        prop_oneof![3 => proptest::sample::select(vec!["daily", "weekly", "monthly", "yearly"]), 1 => Just("day")];
    let numbers = || prop_oneof![3 => -2..40i64, 1 => any::<i64>()];
    let inputs = (units, numbers(), proptest::option::of(numbers()), any::<bool>());
    check(500, inputs, |(unit, interval, day, last)| match Cadence::parse(unit, interval, day, last) {
        Ok(_) => {
            assert!((1..=36).contains(&interval) && day.is_none_or(|day| (1..=31).contains(&day)));
            assert!(!(last && day.is_some()) && Unit::ALL.into_iter().any(|known| Cadence::unit_name(known) == unit));
        }
        Err(Error::Invalid { param, .. }) => {
            assert!(["cadence.unit", "cadence.interval", "cadence.dayOfMonth", "lastDayOfMonth"].contains(&&*param));
        }
        Err(other) => panic!("{other}"),
    });
}

//! Local days of every zone that the system knows.

use jiff::SignedDuration;
use jiff::civil::DateTime;
use jiff::tz::AmbiguousOffset;
use proptest::prelude::*;

use super::super::{PaymentTerms, TimeZone};
use super::naive;
use super::{check, date};
use crate::time::Timestamp;

/// Every zone.
fn zones() -> Vec<TimeZone> {
    let zones: Vec<TimeZone> = jiff::tz::db().available().filter_map(|name| name.as_str().parse().ok()).collect();
    assert!(zones.len() > 400, "only {} zones: is tzdata installed?", zones.len());
    zones
}

/// The same zone, for questions that the code under test does not ask.
fn jiff_zone(zone: &TimeZone) -> jiff::tz::TimeZone {
    jiff::tz::TimeZone::get(zone.name()).expect("a zone of the system")
}

fn instant(text: &str) -> jiff::Timestamp {
    text.parse().expect(text)
}

/// The instants of a zone at which its clocks change, from 1973 to 2037. Earlier offsets have odd seconds.
fn changes(zone: &jiff::tz::TimeZone) -> Vec<jiff::Timestamp> {
    let until = instant("2038-01-01T00:00:00Z");
    let changes = zone.following(instant("1973-01-01T00:00:00Z")).map(|change| change.timestamp());
    changes.take_while(|at| *at < until).collect()
}

/// The first minute at which clocks show this or later, by looking at the clock each minute.
fn first_minute(zone: &jiff::tz::TimeZone, shown: DateTime) -> Timestamp {
    // No offset is more than 16 hours.
    let mut at = jiff::tz::Offset::UTC.to_timestamp(shown).expect("in range") - SignedDuration::from_hours(16);
    while zone.to_datetime(at) < shown {
        at += SignedDuration::from_mins(1);
    }
    Timestamp::new(at)
}

/// An hour of a day near a change of the clocks: the zone, and what they show.
fn hard_times() -> impl Strategy<Value = (TimeZone, DateTime)> {
    // Most zones have long stopped changing their clocks; each has the same chance all the same, and so has each change.
    (prop::sample::select(zones()), any::<prop::sample::Index>(), -1500..1500i64).prop_map(|(zone, index, minutes)| {
        let inner = jiff_zone(&zone);
        let changes = changes(&inner);
        let near = if changes.is_empty() { instant("2000-01-01T00:00:00Z") } else { *index.get(&changes) };
        let shown = inner.to_datetime(near + SignedDuration::from_mins(minutes));
        (zone, shown)
    })
}

#[test]
fn a_day_begins_at_the_first_minute_that_shows_it() {
    check(500, hard_times(), |(zone, shown)| {
        let midnight = shown.date().at(0, 0, 0, 0);
        let day = date(&shown.date().to_string());
        assert_eq!(zone.beginning_of(day), first_minute(&jiff_zone(&zone), midnight));
    });
}

#[test]
fn an_invoice_is_due_at_the_first_minute_that_shows_its_time_of_day() {
    let terms = prop::sample::select(PaymentTerms::ALL[1..].to_vec());
    check(500, (hard_times(), terms, any::<bool>()), |((zone, shown), terms, to_it)| {
        let days = terms.name().trim_start_matches("net_").parse::<i64>().expect("a number");
        let inner = jiff_zone(&zone);
        // The hard time is that of the day on which it is due, or of the issue.
        let issued = shown.checked_sub(jiff::Span::new().days(if to_it { days } else { 0 })).expect("in range");
        let issued = inner.to_timestamp(issued).expect("in range");
        let due = inner.to_datetime(issued).checked_add(jiff::Span::new().days(days)).expect("in range");
        assert_eq!(terms.due(Timestamp::new(issued), &zone), first_minute(&inner, due));
    });
}

#[test]
fn days_follow_each_other_and_every_instant_belongs_to_one() {
    let offsets = 0..90_000_000i64;
    check(3000, (prop::sample::select(zones()), naive::days(1840..2140), offsets), |(zone, day, ms)| {
        let (day, next) = (day.date(), day.next().date());
        let (begins, ends) = (zone.beginning_of(day), zone.beginning_of(next));
        let left_out = zone.date_at(begins) != day;
        assert_eq!(left_out, begins == ends, "a day has an instant, or the zone leaves it out");
        assert!(begins <= ends);
        if left_out {
            let inner = jiff_zone(&zone);
            assert!(inner.to_datetime(begins.jiff()).date() > day.civil(), "the clocks never show {day}");
        }
        let at = begins.as_millisecond() + ms;
        let at = Timestamp::from_millisecond(at).expect("in range");
        let found = zone.date_at(at);
        let after = found.plus_days(1).expect("in range");
        assert!(zone.beginning_of(found) <= at && at < zone.beginning_of(after), "{at} belongs to {found}");
        assert!(found >= day, "no instant belongs to a day before the one that has begun");
    });
}

#[test]
fn every_time_that_the_clocks_leap_over_becomes_the_instant_of_the_leap() {
    let mut leaps = 0;
    for zone in zones() {
        let inner = jiff_zone(&zone);
        for at in changes(&inner) {
            let lands = inner.to_datetime(at);
            let before = inner.to_datetime(at - SignedDuration::from_nanos(1));
            let minute = SignedDuration::from_mins(1);
            for shown in [before + minute, lands - minute] {
                if matches!(inner.to_ambiguous_timestamp(shown).offset(), AmbiguousOffset::Gap { .. }) {
                    leaps += 1;
                    let issued = inner.to_timestamp(shown.checked_sub(jiff::Span::new().days(7)).expect("in range"));
                    let issued = issued.expect("in range");
                    // Unless the clocks leapt over that time a week before as well.
                    if inner.to_datetime(issued).time() == shown.time() {
                        let due = PaymentTerms::Net7.due(Timestamp::new(issued), &zone);
                        assert_eq!(due, Timestamp::new(at), "{shown} in {zone}");
                    }
                }
            }
        }
    }
    assert!(leaps > 10_000, "only {leaps} leaps were met");
}

//! Local days in every zone of the system's database.

use jiff::SignedDuration;
use jiff::civil::DateTime;
use jiff::tz::AmbiguousOffset;
use proptest::prelude::*;

use super::super::{PaymentTerms, TimeZone};
use super::naive;
use super::{check, date};
use crate::time::Timestamp;

fn zones() -> Vec<TimeZone> {
    let zones: Vec<TimeZone> = jiff::tz::db().available().filter_map(|name| name.as_str().parse().ok()).collect();
    assert!(zones.len() > 400, "only {} zones: is tzdata installed?", zones.len());
    zones
}

/// The same zone in jiff, to compute expected results without the code under test.
fn jiff_zone(zone: &TimeZone) -> jiff::tz::TimeZone {
    jiff::tz::TimeZone::get(zone.name()).expect("a zone of the system")
}

fn instant(text: &str) -> jiff::Timestamp {
    text.parse().expect(text)
}

/// The clock changes of a zone from 1973 to 2037. Some earlier offsets are not whole minutes.
fn changes(zone: &jiff::tz::TimeZone) -> Vec<jiff::Timestamp> {
    let until = instant("2038-01-01T00:00:00Z");
    let changes = zone.following(instant("1973-01-01T00:00:00Z")).map(|change| change.timestamp());
    changes.take_while(|at| *at < until).collect()
}

/// The first minute whose local time is `local` or later, found by checking each minute.
fn first_minute(zone: &jiff::tz::TimeZone, local: DateTime) -> Timestamp {
    // No offset exceeds 16 hours.
    let mut at = jiff::tz::Offset::UTC.to_timestamp(local).expect("in range") - SignedDuration::from_hours(16);
    while zone.to_datetime(at) < local {
        at += SignedDuration::from_mins(1);
    }
    Timestamp::new(at)
}

/// The first minute with this local time or, if a clock change skips it, the time later by the gap.
fn moved_by_the_gap(zone: &jiff::tz::TimeZone, local: DateTime) -> Timestamp {
    let at = first_minute(zone, local).jiff();
    let nanosecond = SignedDuration::from_nanos(1);
    let end = zone.to_datetime(at - nanosecond) + nanosecond;
    let skipped = if zone.to_datetime(at) == local { SignedDuration::ZERO } else { local.duration_since(end) };
    Timestamp::new(at + skipped)
}

/// A zone and a local time near one of its clock changes.
fn times_near_changes() -> impl Strategy<Value = (TimeZone, DateTime)> {
    // Uniform over zones, then over the changes of the zone, although most zones no longer change their clocks.
    (prop::sample::select(zones()), any::<prop::sample::Index>(), -1500..1500i64).prop_map(|(zone, index, minutes)| {
        let inner = jiff_zone(&zone);
        let changes = changes(&inner);
        let near = if changes.is_empty() { instant("2000-01-01T00:00:00Z") } else { *index.get(&changes) };
        let local = inner.to_datetime(near + SignedDuration::from_mins(minutes));
        (zone, local)
    })
}

#[test]
fn days_start_at_the_first_minute_of_their_local_date() {
    check(500, times_near_changes(), |(zone, local)| {
        let midnight = local.date().at(0, 0, 0, 0);
        let day = date(&local.date().to_string());
        assert_eq!(zone.beginning_of(day), first_minute(&jiff_zone(&zone), midnight));
    });
}

#[test]
fn due_times_are_the_local_time_of_issue_moved_by_gaps() {
    let terms = prop::sample::select(PaymentTerms::ALL[1..].to_vec());
    check(500, (times_near_changes(), terms, any::<bool>()), |((zone, local), terms, is_due_time)| {
        let days = terms.name().trim_start_matches("net_").parse::<i64>().expect("a number");
        let inner = jiff_zone(&zone);
        // The time near the change is either the due time or the time of issue.
        let issued = local.checked_sub(jiff::Span::new().days(if is_due_time { days } else { 0 })).expect("in range");
        let issued = inner.to_timestamp(issued).expect("in range");
        let due = inner.to_datetime(issued).checked_add(jiff::Span::new().days(days)).expect("in range");
        assert_eq!(terms.due(Timestamp::new(issued), &zone), moved_by_the_gap(&inner, due));
    });
}

#[test]
fn days_are_consecutive_and_every_instant_has_one_day() {
    let offsets = 0..90_000_000i64;
    check(3000, (prop::sample::select(zones()), naive::days(1840..2140), offsets), |(zone, day, ms)| {
        let (day, next) = (day.date(), day.next().date());
        let (start, end) = (zone.beginning_of(day), zone.beginning_of(next));
        let is_skipped = zone.date_at(start) != day;
        assert_eq!(is_skipped, start == end, "a day is empty only if the zone skips it");
        assert!(start <= end);
        if is_skipped {
            let inner = jiff_zone(&zone);
            assert!(inner.to_datetime(start.jiff()).date() > day.civil(), "{day} is never the local date");
        }
        let at = start.as_millisecond() + ms;
        let at = Timestamp::from_millisecond(at).expect("in range");
        let day_at = zone.date_at(at);
        let after = day_at.plus_days(1).expect("in range");
        assert!(zone.beginning_of(day_at) <= at && at < zone.beginning_of(after), "{at} is on {day_at}");
        assert!(day_at >= day, "an instant is never on a day before one that has started");
    });
}

#[test]
fn due_times_skipped_by_a_clock_change_move_later_by_the_gap() {
    let mut gaps = 0;
    for zone in zones() {
        let inner = jiff_zone(&zone);
        for at in changes(&inner) {
            let after = inner.to_datetime(at);
            let before = inner.to_datetime(at - SignedDuration::from_nanos(1)) + SignedDuration::from_nanos(1);
            let minute = SignedDuration::from_mins(1);
            for local in [before + minute, after - minute] {
                if matches!(inner.to_ambiguous_timestamp(local).offset(), AmbiguousOffset::Gap { .. }) {
                    gaps += 1;
                    let issued = inner.to_timestamp(local.checked_sub(jiff::Span::new().days(7)).expect("in range"));
                    let issued = issued.expect("in range");
                    // Unless the local time was also skipped a week before.
                    if inner.to_datetime(issued).time() == local.time() {
                        let due = PaymentTerms::Net7.due(Timestamp::new(issued), &zone);
                        let late = local.duration_since(before);
                        assert_eq!(due, Timestamp::new(at + late), "{local} in {zone}");
                    }
                }
            }
        }
    }
    assert!(gaps > 10_000, "only {gaps} gaps were found");
}

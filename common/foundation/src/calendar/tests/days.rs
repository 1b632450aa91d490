//! Local days with hand-computed results, based on the official announcements of clock changes.

use super::super::{PaymentTerms, TimeZone};
use super::date;
use crate::time::Timestamp;

fn instant(text: &str) -> Timestamp {
    Timestamp::new(text.parse().expect(text))
}

fn zone(name: &str) -> TimeZone {
    name.parse().expect(name)
}

/// Asserts when each day starts.
fn assert_starts(place: &str, days: &[(&str, &str)]) {
    let zone = zone(place);
    for (day, start) in days {
        assert_eq!(zone.beginning_of(date(day)), instant(start), "{day} in {place}");
    }
}

/// Asserts the day of each instant.
fn assert_dates(place: &str, instants: &[(&str, &str)]) {
    let zone = zone(place);
    for (at, day) in instants {
        assert_eq!(zone.date_at(instant(at)), date(day), "{at} in {place}");
    }
}

#[test]
fn days_are_23_to_25_hours_long() {
    assert_starts("UTC", &[("1970-01-01", "1970-01-01T00:00:00Z"), ("2026-03-29", "2026-03-29T00:00:00Z")]);
    // One hour forward at 02:00 on 8 March, one hour back at 02:00 on 1 November.
    assert_starts(
        "America/New_York",
        &[
            ("2026-03-08", "2026-03-08T05:00:00Z"),
            ("2026-03-09", "2026-03-09T04:00:00Z"),
            ("2026-11-01", "2026-11-01T04:00:00Z"),
            ("2026-11-02", "2026-11-02T05:00:00Z"),
        ],
    );
    assert_dates(
        "America/New_York",
        &[
            ("2026-03-09T03:59:59.999Z", "2026-03-08"),
            ("2026-03-09T04:00:00Z", "2026-03-09"),
            ("2026-11-02T04:59:59.999Z", "2026-11-01"),
            ("2026-11-02T05:00:00Z", "2026-11-02"),
        ],
    );
    // Half an hour forward at 02:00 on 4 October, half an hour back at 02:00 on 5 April.
    assert_starts(
        "Australia/Lord_Howe",
        &[
            ("2026-04-05", "2026-04-04T13:00:00Z"),
            ("2026-04-06", "2026-04-05T13:30:00Z"),
            ("2026-10-04", "2026-10-03T13:30:00Z"),
            ("2026-10-05", "2026-10-04T13:00:00Z"),
        ],
    );
}

#[test]
fn a_day_without_midnight_starts_at_the_clock_change() {
    // Daylight saving time starts at midnight: from 24:00 to 01:00.
    assert_starts(
        "America/Sao_Paulo",
        &[("2018-11-04", "2018-11-04T03:00:00Z"), ("2018-11-05", "2018-11-05T02:00:00Z")],
    );
    assert_starts("Asia/Beirut", &[("2026-03-29", "2026-03-28T22:00:00Z"), ("2026-03-30", "2026-03-29T21:00:00Z")]);
    assert_starts("Africa/Cairo", &[("2026-04-24", "2026-04-23T22:00:00Z"), ("2026-04-25", "2026-04-24T21:00:00Z")]);
    assert_dates("Africa/Cairo", &[("2026-04-23T21:59:59.999Z", "2026-04-23"), ("2026-04-23T22:00:00Z", "2026-04-24")]);
    // From 23:30 on 30 March to 00:30 on the 31st: the gap starts before midnight.
    assert_starts("America/Toronto", &[("1919-03-30", "1919-03-30T05:00:00Z"), ("1919-03-31", "1919-03-31T04:30:00Z")]);
}

#[test]
fn a_day_with_two_midnights_starts_at_the_first() {
    // From 01:00 back to 00:00 of the same day.
    assert_starts("America/Havana", &[("2026-11-01", "2026-11-01T04:00:00Z"), ("2026-11-02", "2026-11-02T05:00:00Z")]);
    assert_dates("America/Havana", &[("2026-11-01T05:30:00Z", "2026-11-01")]);
    // From 24:00 back to 23:00: the day continues, and midnight occurs once.
    assert_starts(
        "America/Sao_Paulo",
        &[("2018-02-17", "2018-02-17T02:00:00Z"), ("2018-02-18", "2018-02-18T03:00:00Z")],
    );
    assert_starts("Asia/Beirut", &[("2026-10-24", "2026-10-23T21:00:00Z"), ("2026-10-25", "2026-10-24T22:00:00Z")]);
    assert_starts("Africa/Cairo", &[("2026-10-29", "2026-10-28T21:00:00Z"), ("2026-10-30", "2026-10-29T22:00:00Z")]);
    assert_dates("Africa/Cairo", &[("2026-10-29T21:30:00Z", "2026-10-29"), ("2026-10-29T22:00:00Z", "2026-10-30")]);
    // From 00:01 on 7 November back to 23:01 on the 6th: a day that has started continues, whatever the local time.
    assert_starts(
        "America/St_Johns",
        &[("2010-11-07", "2010-11-07T02:30:00Z"), ("2010-11-08", "2010-11-08T03:30:00Z")],
    );
    assert_dates(
        "America/St_Johns",
        &[
            ("2010-11-07T02:29:59.999Z", "2010-11-06"),
            ("2010-11-07T02:30:00Z", "2010-11-07"),
            ("2010-11-07T02:31:00Z", "2010-11-07"),
            ("2010-11-07T03:29:59.999Z", "2010-11-07"),
            ("2010-11-07T03:30:00Z", "2010-11-07"),
        ],
    );
}

#[test]
fn a_skipped_day_starts_with_the_next_day() {
    // Both zones crossed the date line at the end of the previous day.
    assert_starts(
        "Pacific/Apia",
        &[
            ("2011-12-29", "2011-12-29T10:00:00Z"),
            ("2011-12-30", "2011-12-30T10:00:00Z"),
            ("2011-12-31", "2011-12-30T10:00:00Z"),
            ("2012-01-01", "2011-12-31T10:00:00Z"),
        ],
    );
    assert_dates("Pacific/Apia", &[("2011-12-30T09:59:59.999Z", "2011-12-29"), ("2011-12-30T10:00:00Z", "2011-12-31")]);
    assert_starts(
        "Pacific/Kwajalein",
        &[
            ("1993-08-20", "1993-08-20T12:00:00Z"),
            ("1993-08-21", "1993-08-21T12:00:00Z"),
            ("1993-08-22", "1993-08-21T12:00:00Z"),
        ],
    );
    assert_dates(
        "Pacific/Kwajalein",
        &[("1993-08-21T11:59:59.999Z", "1993-08-20"), ("1993-08-21T12:00:00Z", "1993-08-22")],
    );
}

/// What is captured at an instant settles at the end of its day.
#[test]
fn days_end_when_the_next_one_starts() {
    let days: [(&str, &[(&str, &str)]); 7] = [
        (
            "UTC",
            &[("2026-03-01T23:59:59.999Z", "2026-03-02T00:00:00Z"), ("2026-03-02T00:00:00Z", "2026-03-03T00:00:00Z")],
        ),
        // The day of 23 hours and that of 25, in which 01:30 occurs twice.
        (
            "America/New_York",
            &[
                ("2026-03-08T04:59:59.999Z", "2026-03-08T05:00:00Z"),
                ("2026-03-08T05:00:00Z", "2026-03-09T04:00:00Z"),
                ("2026-03-09T03:59:59.999Z", "2026-03-09T04:00:00Z"),
                ("2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"),
                ("2026-11-01T05:30:00Z", "2026-11-02T05:00:00Z"),
                ("2026-11-01T06:30:00Z", "2026-11-02T05:00:00Z"),
                ("2026-11-02T05:00:00Z", "2026-11-03T05:00:00Z"),
            ],
        ),
        // Midnight is skipped in spring, and the hour before it occurs twice in autumn.
        (
            "Africa/Cairo",
            &[
                ("2026-04-23T21:59:59.999Z", "2026-04-23T22:00:00Z"),
                ("2026-04-23T22:00:00Z", "2026-04-24T21:00:00Z"),
                ("2026-10-29T20:30:00Z", "2026-10-29T22:00:00Z"),
                ("2026-10-29T21:30:00Z", "2026-10-29T22:00:00Z"),
            ],
        ),
        // Midnight occurs twice.
        (
            "America/Havana",
            &[("2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"), ("2026-11-01T05:00:00Z", "2026-11-02T05:00:00Z")],
        ),
        // At the second 23:30 of the 6th, the 7th has started.
        (
            "America/St_Johns",
            &[
                ("2010-11-07T02:29:59.999Z", "2010-11-07T02:30:00Z"),
                ("2010-11-07T02:30:00Z", "2010-11-08T03:30:00Z"),
                ("2010-11-07T03:00:00Z", "2010-11-08T03:30:00Z"),
            ],
        ),
        // 30 December is skipped.
        (
            "Pacific/Apia",
            &[("2011-12-30T09:59:59.999Z", "2011-12-30T10:00:00Z"), ("2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z")],
        ),
        (
            "Asia/Kathmandu",
            &[("2026-01-01T18:14:59.999Z", "2026-01-01T18:15:00Z"), ("2026-01-01T18:15:00Z", "2026-01-02T18:15:00Z")],
        ),
    ];
    for (place, instants) in days {
        let zone = zone(place);
        for (at, end) in instants {
            assert_eq!(zone.end_of(zone.date_at(instant(at))), instant(end), "{at} in {place}");
        }
    }
    assert_eq!(zone("UTC").end_of(date("9999-12-31")), Timestamp::MAX);
}

#[test]
fn the_last_days_of_the_calendar_start_at_the_last_instant() {
    let last = Timestamp::MAX;
    for place in ["UTC", "America/New_York", "Pacific/Kiritimati", "Pacific/Pago_Pago"] {
        let zone = zone(place);
        assert!(zone.beginning_of(date("9999-12-29")) < last);
        assert!(zone.beginning_of(date("9999-12-31")) <= last);
        assert_eq!(PaymentTerms::Net7.due(last, &zone), last);
    }
    assert_eq!(zone("UTC").beginning_of(date("9999-12-31")), last);
}

/// Asserts when an invoice with these terms is due.
fn assert_due(place: &str, terms: PaymentTerms, issued: &str, due: &str) {
    assert_eq!(terms.due(instant(issued), &zone(place)), instant(due), "{} from {issued} in {place}", terms.name());
}

#[test]
fn terms_count_days_and_keep_the_time_of_day() {
    use PaymentTerms::{DueOnReceipt, Net7, Net15, Net30, Net60};
    let issued = "2026-01-31T09:30:00.123456Z";
    let days = ["2026-01-31", "2026-02-07", "2026-02-15", "2026-03-02", "2026-04-01"];
    for (terms, day) in PaymentTerms::ALL.into_iter().zip(days) {
        assert_due("UTC", terms, issued, &format!("{day}T09:30:00.123456Z"));
    }
    // 12:00 local time in New York, in winter and in summer.
    assert_due("America/New_York", Net15, "2026-03-01T17:00:00Z", "2026-03-16T16:00:00Z");
    assert_due("America/New_York", Net30, "2026-10-15T16:00:00Z", "2026-11-14T17:00:00Z");
    assert_due("America/New_York", Net60, "2026-02-01T17:00:00Z", "2026-04-02T16:00:00Z");
    // The local date counts: 23:30 on 31 January.
    assert_due("America/New_York", Net30, "2026-02-01T04:30:00Z", "2026-03-03T04:30:00Z");
    // 02:30 is skipped: the clocks change from 02:00 to 03:00, so it becomes 03:30.
    assert_due("America/New_York", Net7, "2026-03-01T07:30:00Z", "2026-03-08T07:30:00Z");
    assert_due("Europe/Berlin", Net7, "2027-03-21T01:30:00Z", "2027-03-28T01:30:00Z");
    // 01:30 on 1 November occurs twice, first in daylight saving time.
    assert_due("America/New_York", Net7, "2026-10-25T05:30:00Z", "2026-11-01T05:30:00Z");
    // Issued at the second 01:30, which occurs once seven days later. Due on receipt means due then, not an hour
    // before.
    assert_due("America/New_York", Net7, "2026-11-01T06:30:00Z", "2026-11-08T06:30:00Z");
    assert_due("America/New_York", DueOnReceipt, "2026-11-01T06:30:00Z", "2026-11-01T06:30:00Z");
    // 02:15 is skipped: the clocks change from 02:00 to 02:30. 01:45 occurs twice.
    assert_due("Australia/Lord_Howe", Net7, "2026-09-26T15:45:00Z", "2026-10-03T15:45:00Z");
    assert_due("Australia/Lord_Howe", Net7, "2026-03-28T14:45:00Z", "2026-04-04T14:45:00Z");
    // 30 December is skipped, but counts as a calendar day.
    assert_due("Pacific/Apia", Net7, "2011-12-24T01:00:00Z", "2011-12-31T01:00:00Z");
    assert_due("Pacific/Apia", Net15, "2011-12-24T01:00:00Z", "2012-01-07T01:00:00Z");
}

//! Payment terms: how long after its issue an invoice falls due.

use jiff::ToSpan;
use jiff::tz::TimeZone;

use crate::error::{Error, Result};
use crate::time::Timestamp;

/// How long after its issue an invoice falls due, in days of the account's calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "payment_terms", rename_all = "snake_case")]
pub enum PaymentTerms {
    /// At once.
    DueOnReceipt,
    /// After 7 days.
    #[sqlx(rename = "net_7")]
    Net7,
    /// After 15 days.
    #[sqlx(rename = "net_15")]
    Net15,
    /// After 30 days.
    #[sqlx(rename = "net_30")]
    Net30,
    /// After 60 days.
    #[sqlx(rename = "net_60")]
    Net60,
}

impl PaymentTerms {
    /// Every one, from the shortest to the longest.
    pub const ALL: [Self; 5] = [Self::DueOnReceipt, Self::Net7, Self::Net15, Self::Net30, Self::Net60];

    /// As the API reads and prints it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::DueOnReceipt => "due_on_receipt",
            Self::Net7 => "net_7",
            Self::Net15 => "net_15",
            Self::Net30 => "net_30",
            Self::Net60 => "net_60",
        }
    }

    const fn days(self) -> i32 {
        match self {
            Self::DueOnReceipt => 0,
            Self::Net7 => 7,
            Self::Net15 => 15,
            Self::Net30 => 30,
            Self::Net60 => 60,
        }
    }
}

/// The same local time so many calendar days later. A time that the clocks leap over then is as much later as they leap, and
/// of one that comes twice it is the first.
///
/// # Errors
/// [`Error::Internal`] for a zone that nobody knows, or a day beyond the calendar.
pub(super) fn due_at(terms: PaymentTerms, issued_at: Timestamp, zone: &str) -> Result<Timestamp> {
    if terms.days() == 0 {
        return Ok(issued_at);
    }
    let due = || {
        let issued_at = jiff::Timestamp::from_millisecond(issued_at.as_millisecond())?;
        let local = issued_at.to_zoned(TimeZone::get(zone)?);
        local.checked_add(terms.days().days()).map(|due| Timestamp::new(due.timestamp()))
    };
    due()
        .map_err(|error: jiff::Error| Error::internal(format!("{} after {issued_at} in {zone}: {error}", terms.name())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(terms: PaymentTerms, issued_at: &str, zone: &str) -> String {
        let issued_at = Timestamp::parse(issued_at).expect("an instant");
        due_at(terms, issued_at, zone).expect("within the calendar").to_string()
    }

    #[test]
    fn days_are_those_of_the_calendar_in_the_zone() {
        for (terms, issued_at, zone, expected) in [
            (PaymentTerms::DueOnReceipt, "2026-11-21T09:30:00.123Z", "Asia/Tokyo", "2026-11-21T09:30:00.123Z"),
            (PaymentTerms::Net7, "2026-11-21T09:30:00.123Z", "UTC", "2026-11-28T09:30:00.123Z"),
            (PaymentTerms::Net15, "2028-02-20T12:00:00Z", "UTC", "2028-03-06T12:00:00.000Z"),
            // In New York the clocks go back on 1 November 2026 and forward on 14 March 2027.
            (PaymentTerms::Net30, "2026-10-20T14:00:00Z", "America/New_York", "2026-11-19T15:00:00.000Z"),
            (PaymentTerms::Net60, "2027-02-01T15:00:00Z", "America/New_York", "2027-04-02T14:00:00.000Z"),
            (PaymentTerms::Net30, "2026-10-20T14:00:00Z", "UTC", "2026-11-19T14:00:00.000Z"),
        ] {
            assert_eq!(due(terms, issued_at, zone), expected, "{} in {zone}", terms.name());
        }
    }

    #[test]
    fn a_local_time_that_is_not_there_or_comes_twice_is_decided() {
        // 02:30 does not exist on 14 March 2027, and is 03:30; 01:30 comes twice on 1 November 2026, and is the first.
        assert_eq!(due(PaymentTerms::Net7, "2027-03-07T07:30:00Z", "America/New_York"), "2027-03-14T07:30:00.000Z");
        assert_eq!(due(PaymentTerms::Net7, "2026-10-25T05:30:00Z", "America/New_York"), "2026-11-01T05:30:00.000Z");
    }

    #[test]
    fn a_zone_that_nobody_knows_is_our_fault() {
        let now = Timestamp::parse("2026-11-21T09:30:00Z").expect("an instant");
        assert!(matches!(due_at(PaymentTerms::Net7, now, "Mars/Olympus"), Err(Error::Internal(_))));
    }
}

//! Time zones, and when their days start.

use std::fmt;
use std::str::FromStr;

use jiff::civil::DateTime;
use jiff::tz::AmbiguousOffset;

use super::Date;
use crate::schema;
use crate::text_column::text_column;
use crate::time::Timestamp;

/// Names in the system's zone directory that are not IANA zones: their meaning depends on the machine.
const EXCLUDED_NAMES: [&str; 3] = ["Factory", "localtime", "posixrules"];

/// A time zone, identified by its IANA name. The rules come from the system's zone database and are reloaded when it
/// changes.
#[derive(Clone)]
pub struct TimeZone(jiff::tz::TimeZone);

/// The system's zone database has no zone of this name.
#[derive(Debug, thiserror::Error)]
#[error("not the name of a time zone")]
pub struct UnknownTimeZone;

impl TimeZone {
    pub const UTC: Self = Self(jiff::tz::TimeZone::UTC);

    /// The name in IANA's spelling. Aliases are kept: they are not replaced by the canonical name.
    pub fn name(&self) -> &str {
        self.0.iana_name().expect("zones are only built from a name")
    }

    /// Returns when a day starts: the first instant whose local time is its midnight or later. If midnight is skipped
    /// by a clock change, the day starts at the change; if midnight occurs twice, at the first one. A day that the zone
    /// skips starts and ends when the next day starts.
    ///
    /// The last days of the year 9999 start at [`Timestamp::MAX`].
    pub fn beginning_of(&self, date: Date) -> Timestamp {
        self.first_instant(date.civil().at(0, 0, 0, 0))
    }

    /// Returns when a day ends: when the next one starts. The calendar's last day ends at [`Timestamp::MAX`].
    pub fn end_of(&self, date: Date) -> Timestamp {
        date.plus_days(1).map_or(Timestamp::MAX, |next| self.beginning_of(next))
    }

    /// Returns the day of an instant: the last day that has started. That is the local date, except after clocks are
    /// set back across midnight: the day that has started continues, so that no later instant has an earlier day.
    pub fn date_at(&self, instant: Timestamp) -> Date {
        let local = Date::clamped(self.0.to_datetime(instant.jiff()).date());
        match local.plus_days(1) {
            Some(next) if self.beginning_of(next) <= instant => next,
            _ => local,
        }
    }

    /// The local date and time of an instant.
    pub fn local(&self, instant: Timestamp) -> jiff::Zoned {
        instant.jiff().to_zoned(self.0.clone())
    }

    /// Returns the same local time this many calendar days later: its first occurrence or, if a clock change skips it,
    /// the time later by the gap. Zero days later is the instant itself.
    pub fn days_later(&self, instant: Timestamp, days: u32) -> Timestamp {
        if days == 0 {
            // If the local time occurs twice, its first occurrence may be an hour earlier.
            return instant;
        }
        let local = self.0.to_datetime(instant.jiff());
        match Date::clamped(local.date()).plus_days(days.into()) {
            Some(date) => {
                let ambiguous = self.0.to_ambiguous_timestamp(date.civil().to_datetime(local.time()));
                ambiguous.compatible().map_or(Timestamp::MAX, Timestamp::new)
            }
            None => Timestamp::MAX,
        }
    }

    /// Returns the first instant whose local time is `local` or later, at most [`Timestamp::MAX`].
    fn first_instant(&self, local: DateTime) -> Timestamp {
        let at = |offset: jiff::tz::Offset| offset.to_timestamp(local).unwrap_or(Timestamp::MAX.jiff());
        Timestamp::new(match self.0.to_ambiguous_timestamp(local).offset() {
            AmbiguousOffset::Unambiguous { offset } => at(offset),
            AmbiguousOffset::Fold { before, .. } => at(before),
            // With the offset after the change, a skipped local time is an instant before the change.
            AmbiguousOffset::Gap { after, .. } => self
                .0
                .following(at(after))
                .map(|change| change.timestamp())
                .find(|change| self.0.to_datetime(*change) >= local)
                .expect("a gap ends with an offset change"),
        })
    }
}

impl FromStr for TimeZone {
    type Err = UnknownTimeZone;

    /// Case-insensitive.
    fn from_str(text: &str) -> Result<Self, UnknownTimeZone> {
        let zone = jiff::tz::TimeZone::get(text).map_err(|_| UnknownTimeZone)?;
        let is_iana = zone.iana_name().is_some_and(|name| !EXCLUDED_NAMES.contains(&name));
        if is_iana { Ok(Self(zone)) } else { Err(UnknownTimeZone) }
    }
}

impl PartialEq for TimeZone {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for TimeZone {}

impl fmt::Display for TimeZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for TimeZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

schema::schema_is!(TimeZone, schema::text("^[A-Za-z0-9_+/-]+$", "America/New_York"));

impl serde::Serialize for TimeZone {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

text_column!(TimeZone);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kept_in_the_iana_spelling() {
        let valid = [
            ("UTC", "UTC"),
            ("utc", "UTC"),
            ("america/NEW_YORK", "America/New_York"),
            ("Etc/GMT+5", "Etc/GMT+5"),
            // Two names of one zone.
            ("Asia/Calcutta", "Asia/Calcutta"),
            ("Asia/Kolkata", "Asia/Kolkata"),
        ];
        for (text, name) in valid {
            let zone: TimeZone = text.parse().expect(text);
            assert_eq!(zone.name(), name);
            assert_eq!(serde_json::to_value(&zone).expect("JSON"), name);
        }
        let invalid = [
            "",
            "Mars/Olympus",
            "New_York",
            "America",
            "America/",
            "EST5EDT4",
            "+02:00",
            "GMT+25",
            "Z",
            "UTC ",
            "Etc/Unknown",
            "posix/Europe/Rome",
            "right/Europe/Rome",
            "../zoneinfo/UTC",
            "/usr/share/zoneinfo/UTC",
            "leapseconds",
            "tzdata.zi",
            "Factory",
            "factory",
            "localtime",
            "posixrules",
            "PosixRules",
        ];
        for text in invalid {
            assert!(text.parse::<TimeZone>().is_err(), "{text}");
        }
    }
}

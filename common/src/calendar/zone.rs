//! Time zones, and which instants their days are made of.

use std::fmt;
use std::str::FromStr;

use jiff::civil::DateTime;
use jiff::tz::AmbiguousOffset;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgTypeInfo, PgValueRef, Postgres};

use super::Date;
use crate::schema;
use crate::time::Timestamp;

/// Names that the system's folder has beside those of places, and that mean another zone on another machine, or none.
const NO_PLACES: [&str; 3] = ["Factory", "localtime", "posixrules"];

/// A time zone, by its name in the IANA database. The rules are the system's, which reads them anew when they change.
#[derive(Clone)]
pub struct TimeZone(jiff::tz::TimeZone);

/// The system knows no zone of this name.
#[derive(Debug, thiserror::Error)]
#[error("not the name of a time zone")]
pub struct UnknownTimeZone;

impl TimeZone {
    /// Universal time.
    pub const UTC: Self = Self(jiff::tz::TimeZone::UTC);

    /// Its name, as IANA spells it. One of several names for the same zone stays the one that was given.
    pub fn name(&self) -> &str {
        self.0.iana_name().expect("a zone is only made by its name")
    }

    /// The instant at which a day begins: the first at which clocks there show its midnight or later. So a day whose
    /// midnight the clocks leap over begins where they land, and one that has two midnights with the earlier. A day that
    /// the zone leaves out begins, and ends, where the next one begins.
    ///
    /// The last days of the year 9999 begin at the last instant that there is.
    pub fn beginning_of(&self, date: Date) -> Timestamp {
        self.first_instant(date.civil().at(0, 0, 0, 0))
    }

    /// The day to which an instant belongs: the last one that has begun. It is the date that clocks there show, but for clocks
    /// that are set back over midnight: the day that has begun goes on, so that no later instant belongs to an earlier day.
    pub fn date_at(&self, instant: Timestamp) -> Date {
        let shown = Date::nearest(self.0.to_datetime(instant.jiff()).date());
        match shown.plus_days(1) {
            Some(next) if self.beginning_of(next) <= instant => next,
            _ => shown,
        }
    }

    /// The day and the time that clocks there show, for people.
    pub fn spell(&self, instant: Timestamp) -> String {
        instant.jiff().to_zoned(self.0.clone()).strftime("%-d %B %Y, %H:%M %Z").to_string()
    }

    /// The day that calendars there show, for people.
    pub fn spell_day(&self, instant: Timestamp) -> String {
        self.0.to_datetime(instant.jiff()).strftime("%-d %B %Y").to_string()
    }

    /// The same time by the clocks there, so many days of the calendar later: the first instant at which they show it or, if
    /// they leap over it, at which they show a later one. No days later is the instant itself.
    pub fn days_later(&self, instant: Timestamp, days: u32) -> Timestamp {
        if days == 0 {
            // By the clocks it might be the first of two, an hour earlier.
            return instant;
        }
        let shown = self.0.to_datetime(instant.jiff());
        match Date::nearest(shown.date()).plus_days(days.into()) {
            Some(date) => self.first_instant(date.civil().to_datetime(shown.time())),
            None => Timestamp::MAX,
        }
    }

    /// The first instant at which clocks there show this or later; the last instant if that is beyond it.
    fn first_instant(&self, shown: DateTime) -> Timestamp {
        let at = |offset: jiff::tz::Offset| offset.to_timestamp(shown).unwrap_or(Timestamp::MAX.jiff());
        Timestamp::new(match self.0.to_ambiguous_timestamp(shown).offset() {
            AmbiguousOffset::Unambiguous { offset } => at(offset),
            AmbiguousOffset::Fold { before, .. } => at(before),
            // Read by the offset that holds after the leap, what is never shown lies before the leap.
            AmbiguousOffset::Gap { after, .. } => self
                .0
                .following(at(after))
                .map(|change| change.timestamp())
                .find(|change| self.0.to_datetime(*change) >= shown)
                .expect("clocks leap where the offset changes"),
        })
    }
}

impl FromStr for TimeZone {
    type Err = UnknownTimeZone;

    /// Any case is read.
    fn from_str(text: &str) -> Result<Self, UnknownTimeZone> {
        let zone = jiff::tz::TimeZone::get(text).map_err(|_| UnknownTimeZone)?;
        let known = zone.iana_name().is_some_and(|name| !NO_PLACES.contains(&name));
        if known { Ok(Self(zone)) } else { Err(UnknownTimeZone) }
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

impl sqlx::Type<Postgres> for TimeZone {
    fn type_info() -> PgTypeInfo {
        <str as sqlx::Type<Postgres>>::type_info()
    }
}

impl sqlx::Decode<'_, Postgres> for TimeZone {
    fn decode(value: PgValueRef<'_>) -> Result<Self, BoxDynError> {
        Ok(<&str as sqlx::Decode<Postgres>>::decode(value)?.parse()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_read_the_time_of_their_zone() {
        let instant = Timestamp::parse("2026-07-01T03:30:00Z").expect("an instant");
        for (zone, spelt) in [
            ("UTC", "1 July 2026, 03:30 UTC"),
            ("America/New_York", "30 June 2026, 23:30 EDT"),
            ("Asia/Kolkata", "1 July 2026, 09:00 IST"),
        ] {
            let zone: TimeZone = zone.parse().expect("a zone");
            assert_eq!(zone.spell(instant), spelt);
            assert!(spelt.starts_with(&format!("{},", zone.spell_day(instant))), "{spelt}");
        }
    }

    #[test]
    fn zones_have_the_name_they_were_given_in_the_spelling_of_iana() {
        let spelled = [
            ("UTC", "UTC"),
            ("utc", "UTC"),
            ("america/NEW_YORK", "America/New_York"),
            ("Etc/GMT+5", "Etc/GMT+5"),
            // Two names of one zone.
            ("Asia/Calcutta", "Asia/Calcutta"),
            ("Asia/Kolkata", "Asia/Kolkata"),
        ];
        for (text, name) in spelled {
            let zone: TimeZone = text.parse().expect(text);
            assert_eq!(zone.name(), name);
            assert_eq!(serde_json::to_value(&zone).expect("JSON"), name);
        }
        let none = [
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
        for text in none {
            assert!(text.parse::<TimeZone>().is_err(), "{text}");
        }
    }
}

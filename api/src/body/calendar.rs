//! Calendar dates and time zones.

use foundation::calendar::{Date, TimeZone};
use foundation::schema::{self, schema_is};
use serde::de::{Deserialize, Deserializer};

use super::strict::strict;

/// A calendar date.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Day(pub(crate) Date);

impl<'de> Deserialize<'de> for Day {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        strict(from, "a date, such as 2026-11-21", |value| value.as_str()?.parse().ok().map(Self))
    }
}

schema_is!(Day, schema::date());

/// An IANA time zone name, case-insensitive.
#[derive(Clone, Debug)]
pub(crate) struct Zone(pub(crate) TimeZone);

impl<'de> Deserialize<'de> for Zone {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let expected = "an IANA time zone name, such as America/New_York";
        strict(from, expected, |value| value.as_str()?.parse().ok().map(Self))
    }
}

schema_is!(Zone, TimeZone::schema());

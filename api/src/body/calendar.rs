//! Days and the zones in which they begin.

use common::calendar::{Date, TimeZone};
use common::schema::{self, schema_is};
use serde::de::{Deserialize, Deserializer};

use super::strict;

/// A day of the calendar.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Day(pub(crate) Date);

impl<'de> Deserialize<'de> for Day {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        strict(from, "a day of the calendar, such as 2026-11-21", |value| value.as_str()?.parse().ok().map(Self))
    }
}

schema_is!(Day, schema::day());

/// The name of a time zone, in any case.
#[derive(Clone, Debug)]
pub(crate) struct Zone(pub(crate) TimeZone);

impl<'de> Deserialize<'de> for Zone {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let wanted = "the name of a time zone of IANA's database, such as America/New_York";
        strict(from, wanted, |value| value.as_str()?.parse().ok().map(Self))
    }
}

schema_is!(Zone, TimeZone::schema());

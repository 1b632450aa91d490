//! Instants: microseconds, as Postgres keeps them, printed as RFC 3339 in UTC with milliseconds.

use std::fmt;
use std::time::Duration;

use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArgumentBuffer, PgHasArrayType, PgTypeInfo, PgValueFormat, PgValueRef, Postgres};

/// Microseconds from 1970 to 2000, where Postgres begins to count.
const POSTGRES_EPOCH_US: i64 = 946_684_800_000_000;

/// Seconds from 1970 back to the first year.
const YEAR_ONE: i64 = -62_135_596_800;

/// Whether a text is like another that has a 0 for each digit, in any case.
fn has_form(text: &str, form: &str) -> bool {
    let like =
        |(byte, form): (u8, u8)| if form == b'0' { byte.is_ascii_digit() } else { byte.eq_ignore_ascii_case(&form) };
    text.len() == form.len() && text.bytes().zip(form.bytes()).all(like)
}

/// An instant with a precision of one microsecond.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(jiff::Timestamp);

impl Timestamp {
    /// The end of time. Jiff goes on for less than a second, but not by whole microseconds.
    pub const MAX: Self = Self(jiff::Timestamp::constant(253_402_207_200, 0));

    /// The instant, cut to whole microseconds, so that what was written reads back equal.
    pub fn new(instant: jiff::Timestamp) -> Self {
        let within = instant.min(Self::MAX.0);
        Self(jiff::Timestamp::from_microsecond(within.as_microsecond()).expect("a part of a valid instant"))
    }

    /// Reads an instant of RFC 3339: a date, a time to the second or finer, and `Z` or an offset from UTC. None if it is
    /// anything else, or outside the years 1 to 9999 in UTC.
    pub fn parse(text: &str) -> Option<Self> {
        let (time, rest) = text.split_at_checked("0000-00-00T00:00:00".len())?;
        let (fraction, offset) = rest.split_at(rest.find(['Z', 'z', '+', '-'])?);
        let whole = has_form(time, "0000-00-00T00:00:00")
            && (fraction.is_empty() || has_form(fraction, &format!(".{:0<1$}", "0", fraction.len() - 1)))
            && (has_form(offset, "Z") || has_form(offset, "+00:00") || has_form(offset, "-00:00"));
        // An offset ends before a day; the reader behind this one allows more.
        let within_a_day = offset.get(1..3).is_none_or(|hours| hours < "24");
        let instant = (whole && within_a_day).then(|| text.parse::<jiff::Timestamp>().ok())??;
        (instant.as_second() >= YEAR_ONE).then(|| Self::new(instant))
    }

    /// Milliseconds since 1970; none outside the years −9999 to 9999.
    pub fn from_millisecond(ms: i64) -> Option<Self> {
        jiff::Timestamp::from_millisecond(ms).ok().map(Self)
    }

    /// Milliseconds since 1970.
    pub fn as_millisecond(self) -> i64 {
        self.0.as_millisecond()
    }

    /// Microseconds since 1970, within the years −9999 to 9999.
    pub fn from_microsecond(us: i64) -> Self {
        let (min, max) = (jiff::Timestamp::MIN.as_microsecond(), Self::MAX.0.as_microsecond());
        Self(jiff::Timestamp::from_microsecond(us.clamp(min, max)).expect("within the range"))
    }

    /// As jiff has it, for the calendar.
    pub(crate) const fn jiff(self) -> jiff::Timestamp {
        self.0
    }

    /// This instant and so much more. The end of time stays the end of time.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        self.0.checked_add(duration).map_or(Self::MAX, Self::new)
    }

    /// So much earlier, or this instant if there is none so early.
    #[must_use]
    pub fn minus(self, duration: Duration) -> Self {
        self.0.checked_sub(duration).map_or(self, Self::new)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}", self.0)
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

crate::schema::schema_is!(Timestamp, crate::schema::instant());

impl serde::Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl sqlx::Type<Postgres> for Timestamp {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_name("timestamptz")
    }
}

impl PgHasArrayType for Timestamp {
    fn array_type_info() -> PgTypeInfo {
        PgTypeInfo::with_name("timestamptz[]")
    }
}

impl sqlx::Encode<'_, Postgres> for Timestamp {
    fn encode_by_ref(&self, buf: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        sqlx::Encode::<Postgres>::encode_by_ref(&(self.0.as_microsecond() - POSTGRES_EPOCH_US), buf)
    }
}

impl sqlx::Decode<'_, Postgres> for Timestamp {
    fn decode(value: PgValueRef<'_>) -> Result<Self, BoxDynError> {
        match value.format() {
            PgValueFormat::Binary => {
                let us = <i64 as sqlx::Decode<Postgres>>::decode(value)?;
                let us = us.checked_add(POSTGRES_EPOCH_US).ok_or("an instant out of range")?;
                Ok(Self(jiff::Timestamp::from_microsecond(us)?))
            }
            PgValueFormat::Text => Ok(Self::new(value.as_str()?.replacen(' ', "T", 1).parse()?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use testkit::fuzz::{check, mutated, texts};

    #[test]
    fn prints_milliseconds_in_utc() {
        assert_eq!(Timestamp::from_millisecond(0).expect("in range").to_string(), "1970-01-01T00:00:00.000Z");
        let later = Timestamp::from_millisecond(1_800_000_000_123).expect("in range");
        assert_eq!(later.to_string(), "2027-01-15T08:00:00.123Z");
        assert_eq!(later.plus(Duration::from_secs(1)).as_millisecond(), 1_800_000_001_123);
    }

    #[test]
    fn time_has_an_end_that_nothing_passes() {
        assert_eq!(Timestamp::MAX.to_string(), "9999-12-30T22:00:00.000Z");
        assert_eq!(Timestamp::new(jiff::Timestamp::MAX), Timestamp::MAX);
        assert_eq!(Timestamp::MAX.plus(Duration::from_micros(1)), Timestamp::MAX);
        assert_eq!(Timestamp::MAX.plus(Duration::from_secs(1)), Timestamp::MAX);
    }

    #[test]
    fn reads_rfc_3339_and_nothing_else() {
        for (text, expected) in [
            ("2026-11-21T09:30:00Z", "2026-11-21T09:30:00.000Z"),
            ("2026-11-21t09:30:00.123456789z", "2026-11-21T09:30:00.123Z"),
            ("2026-11-21T09:30:00.5+01:00", "2026-11-21T08:30:00.500Z"),
            ("2026-11-21T09:30:00-23:59", "2026-11-22T09:29:00.000Z"),
            ("2028-02-29T00:00:00-00:00", "2028-02-29T00:00:00.000Z"),
            ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000Z"),
        ] {
            assert_eq!(Timestamp::parse(text).map(|instant| instant.to_string()), Some(expected.into()), "{text}");
        }
        for text in [
            "",
            "2026-11-21",
            "2026-11-21T09:30:00",
            "2026-11-21T09:30Z",
            "2026-11-21 09:30:00Z",
            "2026-11-21T09:30:00.Z",
            "2026-11-21T09:30:00.1.2Z",
            "2026-11-21T09:30:00+01",
            "2026-11-21T09:30:00+0100",
            "2026-11-21T09:30:00+24:00",
            "2026-11-21T09:30:00+01:60",
            "2026-11-21T09:30:00Z[UTC]",
            "2026-11-21T09:30:00+01:00[Europe/Paris]",
            "2026-11-21T24:00:00Z",
            "2026-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "20261121T093000Z",
            "+002026-11-21T09:30:00Z",
            "2026-11-21T09:30:0éZ",
            "0001-01-01T00:00:00+00:01",
            "1800000000",
        ] {
            assert_eq!(Timestamp::parse(text), None, "{text}");
        }
    }

    /// Milliseconds from the first year to the end of time.
    fn instants() -> impl Strategy<Value = Timestamp> {
        (YEAR_ONE * 1000..=Timestamp::MAX.as_millisecond()).prop_map(|ms| Timestamp::from_millisecond(ms).unwrap())
    }

    #[test]
    fn every_instant_is_read_as_it_is_printed() {
        check(instants(), |instant| assert_eq!(Timestamp::parse(&instant.to_string()), Some(instant)));
    }

    #[test]
    fn what_is_read_as_an_instant_is_within_the_years_that_can_be_printed() {
        let written = prop_oneof![
            mutated("2026-11-21T09:30:00.123456Z"),
            mutated("9999-12-31T23:59:59-23:59"),
            mutated("0001-01-01T00:00:00+00:00"),
            texts(),
        ];
        check(written, |text| {
            if let Some(instant) = Timestamp::parse(&text) {
                assert!((YEAR_ONE..=Timestamp::MAX.0.as_second()).contains(&instant.0.as_second()), "{text}");
                let printed = instant.to_string();
                assert_eq!(Timestamp::parse(&printed).map(Timestamp::as_millisecond), Some(instant.0.as_millisecond()));
                assert!(text.len() >= "2026-11-21T09:30:00Z".len(), "{text}");
            }
        });
    }

    #[test]
    fn time_added_never_goes_back_or_over_the_end() {
        check((instants(), any::<u64>(), 0..1_000_000_000u32), |(instant, seconds, nanos)| {
            let later = instant.plus(Duration::new(seconds, nanos));
            assert!((instant..=Timestamp::MAX).contains(&later));
        });
    }
}

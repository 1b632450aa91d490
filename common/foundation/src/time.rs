//! Timestamps: stored with microseconds as in Postgres, printed as RFC 3339 in UTC with milliseconds.

use std::fmt;
use std::time::Duration;

use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArgumentBuffer, PgHasArrayType, PgTypeInfo, PgValueFormat, PgValueRef, Postgres};

/// Microseconds from 1970 to 2000, the epoch of Postgres.
const POSTGRES_EPOCH_US: i64 = 946_684_800_000_000;

/// The start of year 1.
const YEAR_ONE: jiff::Timestamp = jiff::Timestamp::constant(-62_135_596_800, 0);

/// Whether a text matches a template in which 0 stands for any digit. Case-insensitive.
fn matches_template(text: &str, template: &str) -> bool {
    let matches =
        |(byte, form): (u8, u8)| if form == b'0' { byte.is_ascii_digit() } else { byte.eq_ignore_ascii_case(&form) };
    text.len() == template.len() && text.bytes().zip(template.bytes()).all(matches)
}

/// An instant with a precision of one microsecond.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(jiff::Timestamp);

impl Timestamp {
    /// The maximum. Jiff's maximum is less than a second later and not a whole microsecond.
    pub const MAX: Self = Self(jiff::Timestamp::constant(253_402_207_200, 0));

    /// Rounds down to a microsecond, so that a value read back from the database is equal.
    pub fn new(instant: jiff::Timestamp) -> Self {
        let us = instant.as_nanosecond().div_euclid(1000);
        Self::from_microsecond(i64::try_from(us).expect("the years −9999 to 9999 fit into 64 bits"))
    }

    /// Parses RFC 3339: a date, a time with at least seconds, and `Z` or an offset. `None` for other formats, and
    /// outside the years 1 to 9999 in UTC.
    pub fn parse(text: &str) -> Option<Self> {
        let (time, rest) = text.split_at_checked("0000-00-00T00:00:00".len())?;
        let (fraction, offset) = rest.split_at(rest.find(['Z', 'z', '+', '-'])?);
        let well_formed = matches_template(time, "0000-00-00T00:00:00")
            && (fraction.is_empty() || matches_template(fraction, &format!(".{:0<1$}", "0", fraction.len() - 1)))
            && (matches_template(offset, "Z")
                || matches_template(offset, "+00:00")
                || matches_template(offset, "-00:00"));
        // RFC 3339 offsets are below 24 hours; jiff's parser allows more.
        let within_a_day = offset.get(1..3).is_none_or(|hours| hours < "24");
        let instant = (well_formed && within_a_day).then(|| text.parse::<jiff::Timestamp>().ok())??;
        (instant >= YEAR_ONE).then(|| Self::new(instant))
    }

    /// Milliseconds since 1970; `None` outside the years −9999 to 9999.
    pub fn from_millisecond(ms: i64) -> Option<Self> {
        jiff::Timestamp::from_millisecond(ms).ok().map(Self)
    }

    /// Milliseconds since 1970, rounded down as they are printed.
    pub fn as_millisecond(self) -> i64 {
        self.0.as_microsecond().div_euclid(1000)
    }

    /// Milliseconds since 1970, rounded up.
    pub fn as_millisecond_rounded_up(self) -> i64 {
        -(-self.0.as_microsecond()).div_euclid(1000)
    }

    /// Microseconds since 1970, clamped to the years −9999 to 9999.
    pub fn from_microsecond(us: i64) -> Self {
        let (min, max) = (jiff::Timestamp::MIN.as_microsecond(), Self::MAX.0.as_microsecond());
        Self(jiff::Timestamp::from_microsecond(us.clamp(min, max)).expect("within the range"))
    }

    /// The jiff representation, for calendar arithmetic.
    pub const fn jiff(self) -> jiff::Timestamp {
        self.0
    }

    /// Adds a duration, saturating at [`Self::MAX`].
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        self.0.checked_add(duration).map_or(Self::MAX, Self::new)
    }

    /// Subtracts a duration; returns `self` on underflow.
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

crate::schema::schema_is!(Timestamp, crate::schema::timestamp());

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
                let us = us.checked_add(POSTGRES_EPOCH_US).ok_or("timestamp out of range")?;
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
    fn timestamps_saturate_at_the_maximum() {
        assert_eq!(Timestamp::MAX.to_string(), "9999-12-30T22:00:00.000Z");
        assert_eq!(Timestamp::new(jiff::Timestamp::MAX), Timestamp::MAX);
        assert_eq!(Timestamp::MAX.plus(Duration::from_micros(1)), Timestamp::MAX);
        assert_eq!(Timestamp::MAX.plus(Duration::from_secs(1)), Timestamp::MAX);
    }

    #[test]
    fn only_rfc_3339_is_parsed() {
        for (text, expected) in [
            ("2026-11-21T09:30:00Z", "2026-11-21T09:30:00.000Z"),
            ("2026-11-21t09:30:00.123456789z", "2026-11-21T09:30:00.123Z"),
            ("2026-11-21T09:30:00.5+01:00", "2026-11-21T08:30:00.500Z"),
            ("2026-11-21T09:30:00-23:59", "2026-11-22T09:29:00.000Z"),
            ("2028-02-29T00:00:00-00:00", "2028-02-29T00:00:00.000Z"),
            ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000Z"),
            ("0026-11-21T09:30:00.1234567Z", "0026-11-21T09:30:00.123Z"),
        ] {
            let parsed = Timestamp::parse(text).expect(text);
            assert_eq!(parsed.to_string(), expected, "{text}");
            let printed = Timestamp::parse(expected).expect(expected);
            assert_eq!(parsed.as_millisecond(), printed.as_millisecond(), "{text}");
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
            "0000-12-31T23:59:59.5Z",
            "1800000000",
        ] {
            assert_eq!(Timestamp::parse(text), None, "{text}");
        }
    }

    /// Timestamps from year 1 to the maximum.
    fn instants() -> impl Strategy<Value = Timestamp> {
        (YEAR_ONE.as_millisecond()..=Timestamp::MAX.as_millisecond())
            .prop_map(|ms| Timestamp::from_millisecond(ms).unwrap())
    }

    #[test]
    fn any_instant_round_trips() {
        check(instants(), |instant| assert_eq!(Timestamp::parse(&instant.to_string()), Some(instant)));
    }

    #[test]
    fn parsed_instants_are_in_the_printable_range() {
        let written = prop_oneof![
            mutated("2026-11-21T09:30:00.123456Z"),
            mutated("9999-12-31T23:59:59-23:59"),
            mutated("0001-01-01T00:00:00+00:00"),
            texts(),
        ];
        check(written, |text| {
            if let Some(instant) = Timestamp::parse(&text) {
                assert!((YEAR_ONE..=Timestamp::MAX.0).contains(&instant.0), "{text}");
                let printed = instant.to_string();
                assert_eq!(Timestamp::parse(&printed).map(Timestamp::as_millisecond), Some(instant.as_millisecond()));
                assert!(text.len() >= "2026-11-21T09:30:00Z".len(), "{text}");
            }
        });
    }

    #[test]
    fn addition_is_monotonic_and_saturates() {
        check((instants(), any::<u64>(), 0..1_000_000_000u32), |(instant, seconds, nanos)| {
            let later = instant.plus(Duration::new(seconds, nanos));
            assert!((instant..=Timestamp::MAX).contains(&later));
        });
    }
}

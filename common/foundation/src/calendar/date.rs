//! Calendar dates, without a time or a time zone.

use std::fmt;
use std::str::FromStr;

use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArgumentBuffer, PgHasArrayType, PgTypeInfo, PgValueFormat, PgValueRef, Postgres};

/// Postgres counts dates from this day.
const POSTGRES_EPOCH: jiff::civil::Date = jiff::civil::date(2000, 1, 1);

/// A date of the Gregorian calendar, in the years 0000 to 9999.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date(jiff::civil::Date);

/// The text is not a valid date.
#[derive(Debug, thiserror::Error)]
#[error("not a calendar date in the format YYYY-MM-DD")]
pub struct InvalidDate;

impl Date {
    /// The earliest date.
    pub const MIN: Self = Self(jiff::civil::date(0, 1, 1));
    /// The latest date.
    pub const MAX: Self = Self(jiff::civil::date(9999, 12, 31));

    /// Adds days, or subtracts them if negative; `None` outside the years 0000 to 9999.
    #[must_use]
    pub fn days_until(self, later: Self) -> i64 {
        i64::from((later.0 - self.0).get_days())
    }

    pub fn plus_days(self, days: i64) -> Option<Self> {
        Self::from_number(self.number().checked_add(days)?)
    }

    /// Converts a jiff date, clamped to the years 0000 to 9999.
    pub(super) fn clamped(civil: jiff::civil::Date) -> Self {
        Self(civil).clamp(Self::MIN, Self::MAX)
    }

    pub(super) const fn civil(self) -> jiff::civil::Date {
        self.0
    }

    /// Days since 2000-01-01.
    pub(super) fn number(self) -> i64 {
        self.0.duration_since(POSTGRES_EPOCH).as_hours() / 24
    }

    fn from_number(days: i64) -> Option<Self> {
        let civil = POSTGRES_EPOCH.checked_add(jiff::Span::new().try_days(days).ok()?).ok()?;
        Self::in_range(civil)
    }

    /// Months since January of the year 0000.
    pub(super) fn month_number(self) -> i64 {
        12 * i64::from(self.0.year()) + i64::from(self.0.month()) - 1
    }

    /// Returns the day of a month, or the last day of a shorter month; `None` outside the years 0000 to 9999.
    pub(super) fn in_month(month_number: i64, day: i8) -> Option<Self> {
        let year = i16::try_from(month_number.div_euclid(12)).ok()?;
        let month = i8::try_from(month_number.rem_euclid(12) + 1).ok()?;
        let first = jiff::civil::Date::new(year, month, 1).ok()?;
        Self::in_range(jiff::civil::Date::new(year, month, day.min(first.days_in_month())).ok()?)
    }

    /// The day of the month, from 1.
    pub(super) fn day(self) -> i8 {
        self.0.day()
    }

    fn in_range(civil: jiff::civil::Date) -> Option<Self> {
        (Self::MIN..=Self::MAX).contains(&Self(civil)).then_some(Self(civil))
    }
}

impl FromStr for Date {
    type Err = InvalidDate;

    /// Accepts only `YYYY-MM-DD` with a date that exists.
    fn from_str(text: &str) -> Result<Self, InvalidDate> {
        let is_valid = |(i, b): (usize, u8)| if i == 4 || i == 7 { b == b'-' } else { b.is_ascii_digit() };
        if text.len() != 10 || !text.bytes().enumerate().all(is_valid) {
            return Err(InvalidDate);
        }
        text.parse().map(Self).map_err(|_| InvalidDate)
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

crate::schema::schema_is!(Date, crate::schema::date());

impl serde::Serialize for Date {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl sqlx::Type<Postgres> for Date {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_name("date")
    }
}

impl PgHasArrayType for Date {
    fn array_type_info() -> PgTypeInfo {
        PgTypeInfo::with_name("date[]")
    }
}

impl sqlx::Encode<'_, Postgres> for Date {
    fn encode_by_ref(&self, buf: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        sqlx::Encode::<Postgres>::encode_by_ref(&i32::try_from(self.number())?, buf)
    }
}

impl sqlx::Decode<'_, Postgres> for Date {
    fn decode(value: PgValueRef<'_>) -> Result<Self, BoxDynError> {
        match value.format() {
            PgValueFormat::Binary => {
                let days = <i32 as sqlx::Decode<Postgres>>::decode(value)?;
                Self::from_number(days.into()).ok_or_else(|| "date out of range".into())
            }
            PgValueFormat::Text => Ok(value.as_str()?.parse()?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date(text: &str) -> Date {
        text.parse().expect("a date")
    }

    #[test]
    fn only_yyyy_mm_dd_is_accepted() {
        for text in ["0000-01-01", "1970-01-01", "2024-02-29", "2000-02-29", "2026-12-31", "9999-12-31"] {
            assert_eq!(date(text).to_string(), text);
        }
        let invalid = [
            "",
            "2026",
            "2026-1-1",
            "26-01-01",
            "20260101",
            "2026/01/01",
            "2026-01-01T00:00:00Z",
            "2026-01-01 ",
            " 2026-01-01",
            "+02026-01-1",
            "-026-01-01",
            "2026-W01-1",
            "2026-02-29",
            "1900-02-29",
            "2026-00-01",
            "2026-13-01",
            "2026-01-00",
            "2026-04-31",
            "10000-01-01",
            "２026-01-1",
            "today",
        ];
        for text in invalid {
            assert!(text.parse::<Date>().is_err(), "{text}");
        }
    }

    #[test]
    fn days_are_counted_across_leap_years_within_four_digit_years() {
        let sums = [("2024-02-28", 1, "2024-02-29"), ("2023-02-28", 1, "2023-03-01"), ("2000-01-01", -1, "1999-12-31")];
        for (from, days, to) in sums {
            assert_eq!(date(from).plus_days(days), Some(date(to)));
            assert_eq!(date(to).plus_days(-days), Some(date(from)));
        }
        // Four centuries have 97 leap years.
        assert_eq!(date("1600-03-01").plus_days(400 * 365 + 97), Some(date("2000-03-01")));
        assert_eq!(Date::MIN.plus_days(3_652_424), Some(Date::MAX), "ten thousand years with 2425 leap years");
        for (from, days) in [(Date::MAX, 1), (Date::MIN, -1), (Date::MAX, i64::MAX), (Date::MIN, i64::MIN)] {
            assert_eq!(from.plus_days(days), None);
        }
    }

    #[test]
    fn a_short_month_yields_its_last_day() {
        let month = |text: &str| date(text).month_number();
        assert_eq!(Date::in_month(month("2026-02-01"), 31), Some(date("2026-02-28")));
        assert_eq!(Date::in_month(month("2028-02-01"), 30), Some(date("2028-02-29")));
        assert_eq!(Date::in_month(month("2026-04-01"), 31), Some(date("2026-04-30")));
        assert_eq!(Date::in_month(month("2026-12-01") + 1, 31), Some(date("2027-01-31")));
        assert_eq!(Date::in_month(month("9999-12-01") + 1, 1), None);
        assert_eq!(Date::in_month(-1, 1), None);
    }

    #[test]
    fn dates_serialize_as_text() {
        assert_eq!(serde_json::to_value(date("2026-11-21")).expect("JSON"), "2026-11-21");
    }

    #[tokio::test]
    async fn dates_round_trip_through_postgres() {
        let database = testkit::Database::create().await.expect("a database");
        let secret = crate::crypto::Secret::new(database.url().to_owned());
        let db = crate::db::pool(&secret, 1, "calendar").expect("a valid URL");
        for text in ["0001-01-01", "1582-10-10", "1969-12-31", "2000-01-01", "2024-02-29", "9999-12-31"] {
            let query = sqlx::query_as::<_, (String, Date)>("SELECT $1::date::text, $2::text::date");
            let (encoded, decoded) = query.bind(date(text)).bind(text).fetch_one(&db).await.expect("a row");
            assert_eq!((encoded.as_str(), decoded), (text, date(text)));
        }
        for text in ["infinity", "-infinity", "0002-01-01 BC", "10000-01-01"] {
            let result = sqlx::query_scalar::<_, Date>("SELECT $1::text::date").bind(text).fetch_one(&db).await;
            assert!(result.is_err(), "{text} was read as {result:?}");
        }
    }
}

//! Timestamps in milliseconds since 1970 and their text form in the API. Shares no code with the calendar that it
//! checks.

use std::time::Instant;

use anyhow::Result;
use sqlx::PgPool;

pub(super) const DAY: i64 = 86_400_000;

/// The database's clock, read once and advanced by a monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    base: i64,
    since: Instant,
}

impl Clock {
    /// The clock of this database.
    pub(super) async fn of(db: &PgPool) -> Result<Self> {
        let now = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";
        let base = sqlx::query_scalar(now).fetch_one(db).await?;
        Ok(Self { base, since: Instant::now() })
    }

    /// Milliseconds since 1970.
    pub(super) fn now(&self) -> i64 {
        self.base + i64::try_from(self.since.elapsed().as_millis()).unwrap_or(i64::MAX)
    }
}

/// Formats a timestamp as `2026-11-21T19:20:27.000Z`.
pub(super) fn format_timestamp(at: i64) -> String {
    let (days, rest) = (at.div_euclid(DAY), at.rem_euclid(DAY));
    let (hour, minute, second) = (rest / 3_600_000, rest / 60_000 % 60, rest / 1000 % 60);
    format!("{}T{hour:02}:{minute:02}:{second:02}.{:03}Z", date(days), rest % 1000)
}

/// The date of a day number, counted from 1970-01-01.
pub(super) fn date(days: i64) -> String {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let of_era = z.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let (day, month) =
        (day_of_year - (153 * shifted + 2) / 5 + 1, if shifted < 10 { shifted + 3 } else { shifted - 9 });
    format!("{:04}-{month:02}-{day:02}", year_of_era + era * 400 + i64::from(month <= 2))
}

/// The day number of a date, counted from 1970-01-01.
pub(super) fn days(date: &str) -> Option<i64> {
    let mut parts = date.splitn(3, '-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let year = year - i64::from(month <= 2);
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let shifted = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * shifted + 2) / 5 + day - 1;
    Some(era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468)
}

/// Parses a timestamp of the API.
pub(super) fn parse_timestamp(text: &str) -> Option<i64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let (clock, millis) = time.split_once('.').unwrap_or((time, "0"));
    let mut parts = clock.splitn(3, ':').map(|part| part.parse::<i64>().ok());
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    Some(days(date)? * DAY + hour * 3_600_000 + minute * 60_000 + second * 1000 + millis.parse::<i64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formatted_timestamps_parse_back() {
        assert_eq!(format_timestamp(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(
            parse_timestamp("2024-02-29T12:34:56.789Z").map(format_timestamp).as_deref(),
            Some("2024-02-29T12:34:56.789Z")
        );
        assert_eq!(days("2000-03-01"), Some(11_017));
        for day in (-1000..60_000).step_by(7) {
            assert_eq!(days(&date(day)), Some(day));
        }
    }
}

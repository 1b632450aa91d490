//! Local times as the report and receipts show them.

use foundation::time::Timestamp;
use jiff::tz::TimeZone;

/// `YYYY-MM-DD HH:MM:SS`
const FORMAT: &str = "%Y-%m-%d %H:%M:%S";

/// Local time in the given zone.
pub fn format_time(instant: Timestamp, zone: &str) -> String {
    let zone = TimeZone::get(zone).unwrap_or(TimeZone::UTC);
    let instant = jiff::Timestamp::from_millisecond(instant.as_millisecond()).unwrap_or_default();
    instant.to_zoned(zone).strftime(FORMAT).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_local_to_the_zone() {
        let instant = Timestamp::parse("2026-07-01T02:03:04.999Z").expect("an instant");
        assert_eq!(format_time(instant, "UTC"), "2026-07-01 02:03:04");
        assert_eq!(format_time(instant, "America/New_York"), "2026-06-30 22:03:04");
    }
}

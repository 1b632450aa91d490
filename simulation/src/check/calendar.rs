//! The checker's own calendar: months have 28 to 31 days, and days begin at midnight of a time zone.

/// A day in milliseconds.
pub(super) const DAY: i64 = 86_400_000;
const HOUR: i64 = 3_600_000;

fn is_leap(year: i64) -> bool {
    (year % 4 == 0 && year % 100 != 0) || year % 400 == 0
}

/// The days of a month, counted from January as 1.
pub(super) fn month_length(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// The number of the day since 1970-01-01.
pub(super) fn day(year: i64, month: i64, of_month: i64) -> i64 {
    let years: i64 = (1970..year).map(|year| 365 + i64::from(is_leap(year))).sum();
    let months: i64 = (1..month).map(|month| month_length(year, month)).sum();
    years + months + of_month - 1
}

/// The year, the month and the day of the month.
pub(super) fn date(mut day: i64) -> (i64, i64, i64) {
    let (mut year, mut month) = (1970, 1);
    while day >= 365 + i64::from(is_leap(year)) {
        day -= 365 + i64::from(is_leap(year));
        year += 1;
    }
    while day >= month_length(year, month) {
        day -= month_length(year, month);
        month += 1;
    }
    (year, month, day + 1)
}

/// `2026-02-28`.
pub(super) fn text(number: i64) -> String {
    let (year, month, of_month) = date(number);
    format!("{year:04}-{month:02}-{of_month:02}")
}

/// The day of `2026-02-28`.
pub(super) fn parse_day(text: &str) -> Option<i64> {
    let mut parts = text.split('-').map(|part| part.parse::<i64>().ok());
    Some(day(parts.next()??, parts.next()??, parts.next()??))
}

/// The milliseconds since 1970 of `2026-02-28T12:00:00.000Z`, the only form in responses.
pub(super) fn parse_time(text: &str) -> Option<i64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let (clock, millis) = time.split_once('.')?;
    let mut parts = clock.split(':').map(|part| part.parse::<i64>().ok());
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    let is_exact = time.len() == 12 && date.len() == 10;
    is_exact.then_some(())?;
    Some(parse_day(date)? * DAY + hour * HOUR + minute * 60_000 + second * 1_000 + millis.parse::<i64>().ok()?)
}

/// The day `months` later, or the last of the month if that does not exist.
pub(super) fn months_later(anchor: i64, months: i64) -> i64 {
    let (year, month, of_month) = date(anchor);
    let count = year * 12 + month - 1 + months;
    let (year, month) = (count / 12, count % 12 + 1);
    day(year, month, of_month.min(month_length(year, month)))
}

/// The day `n` intervals after the anchor.
pub(super) fn cycle(anchor: i64, interval: &str, count: i64, n: i64) -> i64 {
    match interval {
        "day" | "daily" => anchor + n * count,
        "week" | "weekly" => anchor + 7 * n * count,
        "month" | "monthly" => months_later(anchor, n * count),
        _ => months_later(anchor, 12 * n * count),
    }
}

/// The first Sunday on or after a day; 1970-01-04 was one.
fn sunday_from(day: i64) -> i64 {
    day + (3 - day).rem_euclid(7)
}

/// How far the clocks of a zone are ahead of UTC, in milliseconds. In summer time from the second Sunday of March to the
/// first of November at 2:00 in New York, and from the last Sunday of March to the last of October at 1:00 UTC in Berlin.
fn offset(zone: &str, utc_ms: i64) -> i64 {
    let (year, ..) = date(utc_ms.div_euclid(DAY));
    match zone {
        "America/New_York" => {
            let begin = (sunday_from(day(year, 3, 1)) + 7) * DAY + 7 * HOUR;
            let end = sunday_from(day(year, 11, 1)) * DAY + 6 * HOUR;
            if (begin..end).contains(&utc_ms) { -4 * HOUR } else { -5 * HOUR }
        }
        "Europe/Berlin" => {
            let [begin, end] = [3, 10].map(|month| sunday_from(day(year, month, 25)) * DAY + HOUR);
            if (begin..end).contains(&utc_ms) { 2 * HOUR } else { HOUR }
        }
        "Asia/Kolkata" => 5 * HOUR + HOUR / 2,
        _ => 0,
    }
}

/// The day in a zone.
pub(super) fn local_day(zone: &str, utc_ms: i64) -> i64 {
    (utc_ms + offset(zone, utc_ms)).div_euclid(DAY)
}

/// When a day begins in a zone. None of these zones changes its clocks at midnight.
pub(super) fn midnight(zone: &str, day: i64) -> i64 {
    let guess = day * DAY - offset(zone, day * DAY);
    day * DAY - offset(zone, guess)
}

/// The same local time some days later. A skipped time moves later by the gap; of a repeated one, the first counts.
pub(super) fn days_later(zone: &str, utc_ms: i64, days: i64) -> i64 {
    let local = utc_ms + offset(zone, utc_ms) + days * DAY;
    let offsets = [local - DAY, local + DAY].map(|around| offset(zone, around));
    let exact = offsets.map(|offset| local - offset).into_iter().filter(|at| at + offset(zone, *at) == local).min();
    exact.unwrap_or(local - offsets[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_counted_and_named() {
        assert_eq!(day(2000, 3, 1), 11_017);
        assert_eq!(parse_time("2026-01-30T22:00:00.000Z"), Some(1_769_810_400_000));
        assert_eq!(parse_time("2026-01-30T22:00:00Z"), None);
        for number in (0..60_000).step_by(7) {
            assert_eq!(parse_day(&text(number)), Some(number));
        }
        assert_eq!(text(sunday_from(day(2026, 3, 25))), "2026-03-29");
        assert_eq!(text(sunday_from(day(2026, 11, 1))), "2026-11-01");
    }

    #[test]
    fn cycles_keep_the_day_of_the_anchor() {
        let dates = |interval: &str, count| -> Vec<String> {
            (0..4).map(|n| text(cycle(day(2026, 1, 31), interval, count, n))).collect()
        };
        assert_eq!(dates("month", 1), ["2026-01-31", "2026-02-28", "2026-03-31", "2026-04-30"]);
        assert_eq!(dates("week", 2)[3], "2026-03-14");
        assert_eq!(text(cycle(day(2028, 2, 29), "yearly", 1, 1)), "2029-02-28");
    }

    #[test]
    fn days_later_have_the_same_local_time() {
        let at = |month, of_month, minutes: i64| day(2026, month, of_month) * DAY + minutes * 60_000;
        // 2:30 of 8 March does not exist in New York; 1:30 of 1 November exists twice.
        assert_eq!(days_later("America/New_York", at(3, 7, 450), 1), at(3, 8, 450));
        assert_eq!(days_later("America/New_York", at(3, 7, 450), 2), at(3, 9, 390));
        assert_eq!(days_later("America/New_York", at(10, 31, 330), 1), at(11, 1, 330));
        assert_eq!(days_later("America/New_York", at(10, 31, 330), 2), at(11, 2, 390));
        assert_eq!(days_later("Asia/Kolkata", at(1, 1, 0), 30), at(1, 31, 0));
    }

    #[test]
    fn days_begin_at_the_midnight_of_a_zone() {
        let begin =
            |zone, month, of_month| midnight(zone, day(2026, month, of_month)) - day(2026, month, of_month) * DAY;
        assert_eq!(begin("America/New_York", 3, 8), 5 * HOUR);
        assert_eq!(begin("America/New_York", 3, 9), 4 * HOUR);
        assert_eq!(begin("Europe/Berlin", 3, 29), -HOUR);
        assert_eq!(begin("Europe/Berlin", 3, 30), -2 * HOUR);
        assert_eq!(local_day("Asia/Kolkata", day(2026, 1, 30) * DAY + 22 * HOUR), day(2026, 1, 31));
    }
}

//! The checker's own calendar, which shares no code with the one that it checks.

use crate::chaos::time;

/// The date of cycle `n`: the anchor plus that many intervals, on the last day of a month that is too short.
pub(super) fn cycle_date(anchor: i64, interval: &str, count: i64, n: i64) -> i64 {
    let step = count * n;
    match interval {
        "day" | "daily" => anchor + step,
        "week" | "weekly" => anchor + 7 * step,
        "year" | "yearly" => months_later(anchor, 12 * step),
        _ => months_later(anchor, step),
    }
}

fn months_later(anchor: i64, months: i64) -> i64 {
    let date = time::date(anchor);
    let mut parts = date.split('-').map(|part| part.parse::<i64>().unwrap_or(0));
    let [year, month, day] = [parts.next(), parts.next(), parts.next()].map(Option::unwrap_or_default);
    let month = year * 12 + month - 1 + months;
    let first_day = |month: i64| time::days(&format!("{}-{}-1", month.div_euclid(12), month.rem_euclid(12) + 1));
    let (Some(month_start), Some(next_month_start)) = (first_day(month), first_day(month + 1)) else { return i64::MAX };
    (month_start + day - 1).min(next_month_start - 1)
}

/// The number of cycles begun by the end of a day.
pub(super) fn cycles_begun(anchor: i64, interval: &str, count: i64, day: i64) -> usize {
    // A cycle is at least one day long.
    let max_cycles = (day - anchor + 1).max(0);
    (0..max_cycles).take_while(|n| cycle_date(anchor, interval, count.max(1), *n) <= day).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_counted_from_the_anchor() {
        let day = |date: &str| time::days(date).expect("a date");
        let dates = |anchor, interval, count| -> Vec<String> {
            (0..4).map(|n| time::date(cycle_date(day(anchor), interval, count, n))).collect()
        };
        assert_eq!(dates("2026-01-31", "month", 1), ["2026-01-31", "2026-02-28", "2026-03-31", "2026-04-30"]);
        assert_eq!(dates("2027-12-31", "monthly", 2), ["2027-12-31", "2028-02-29", "2028-04-30", "2028-06-30"]);
        assert_eq!(dates("2024-02-29", "year", 1), ["2024-02-29", "2025-02-28", "2026-02-28", "2027-02-28"]);
        assert_eq!(dates("2026-11-30", "week", 1), ["2026-11-30", "2026-12-07", "2026-12-14", "2026-12-21"]);
        assert_eq!(dates("2026-12-30", "daily", 1), ["2026-12-30", "2026-12-31", "2027-01-01", "2027-01-02"]);
        let cycles_begun = |until| super::cycles_begun(day("2026-01-31"), "month", 1, day(until));
        assert_eq!(
            ["2026-01-30", "2026-01-31", "2026-02-27", "2026-02-28", "2026-03-30"].map(cycles_begun),
            [0, 1, 1, 2, 2]
        );
    }
}

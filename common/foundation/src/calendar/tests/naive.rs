//! A naive calendar that steps from day to day. It shares no code with the implementation that it checks.

use proptest::strategy::Strategy;

use super::super::Date;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Day {
    pub(super) year: i32,
    pub(super) month: i32,
    pub(super) day: i32,
}

/// The number of days in a month.
pub(super) fn length(year: i32, month: i32) -> i32 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

impl Day {
    /// The day of a month, or the last day of a shorter month.
    pub(super) fn in_month(year: i32, month: i32, day: i32) -> Self {
        Self { year, month, day: day.min(length(year, month)) }
    }

    pub(super) fn next(self) -> Self {
        let Self { year, month, day } = self;
        if day < length(year, month) {
            Self { year, month, day: day + 1 }
        } else if month < 12 {
            Self { year, month: month + 1, day: 1 }
        } else {
            Self { year: year + 1, month: 1, day: 1 }
        }
    }

    pub(super) fn previous(self) -> Self {
        let Self { year, month, day } = self;
        if day > 1 {
            Self { year, month, day: day - 1 }
        } else if month > 1 {
            Self::in_month(year, month - 1, 31)
        } else {
            Self { year: year - 1, month: 12, day: 31 }
        }
    }

    /// The same day as a [`Date`].
    pub(super) fn date(self) -> Date {
        super::date(&format!("{:04}-{:02}-{:02}", self.year, self.month, self.day))
    }
}

/// Days in a range of years. Ends of months are generated more often than other days.
pub(super) fn days(years: std::ops::Range<i32>) -> impl Strategy<Value = Day> {
    (years, 1..=12, 1..=40).prop_map(|(year, month, day)| Day::in_month(year, month, day))
}

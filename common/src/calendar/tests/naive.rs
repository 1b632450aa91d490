//! The calendar as a child learns it: a day is followed by the next. Nothing here is shared with what it is held against.

use proptest::strategy::Strategy;

use super::super::Date;

/// A day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Day {
    pub(super) year: i32,
    pub(super) month: i32,
    pub(super) day: i32,
}

/// How many days a month has.
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
    /// This day of a month, or its last.
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

    /// The same day for the code that is tested.
    pub(super) fn date(self) -> Date {
        super::date(&format!("{:04}-{:02}-{:02}", self.year, self.month, self.day))
    }
}

/// Days of so many years. The ends of months come more often than their share.
pub(super) fn days(years: std::ops::Range<i32>) -> impl Strategy<Value = Day> {
    (years, 1..=12, 1..=40).prop_map(|(year, month, day)| Day::in_month(year, month, day))
}

//! Cycles: dates that lie evenly apart, counted from an anchor.

use std::fmt;

use super::Date;

/// The unit in which the time between two dates is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "cadence_unit")]
pub enum Unit {
    /// Days.
    #[sqlx(rename = "daily")]
    Day,
    /// Weeks: seven days.
    #[sqlx(rename = "weekly")]
    Week,
    /// Months of the calendar.
    #[sqlx(rename = "monthly")]
    Month,
    /// Years: twelve months.
    #[sqlx(rename = "yearly")]
    Year,
}

impl Unit {
    /// Every one, from the shortest to the longest.
    pub const ALL: [Self; 4] = [Self::Day, Self::Week, Self::Month, Self::Year];
}

/// An endless sequence of dates: its anchor, and the anchor and n times the same step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cycles {
    anchor: Date,
    step: Step,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// So many days; 1 or more.
    Days(i64),
    /// So many months, 1 or more, and there this day, or the last where the month has fewer.
    Months { count: i64, day: i8 },
}

impl Cycles {
    /// The anchor and every `count` units after it. Of a month that lacks the anchor's day it is the last, and the next month
    /// that has the day has it again. None unless `count` is 1 or more.
    pub fn new(anchor: Date, unit: Unit, count: i32) -> Option<Self> {
        Self::on_day(anchor, unit, count, anchor.day())
    }

    /// The same, but of months and years the anchor gives only the month, of which it is this day.
    pub(super) fn on_day(anchor: Date, unit: Unit, count: i32, day: i8) -> Option<Self> {
        let count = i64::from(count);
        let step = match unit {
            Unit::Day => Step::Days(count),
            Unit::Week => Step::Days(7 * count),
            Unit::Month => Step::Months { count, day },
            Unit::Year => Step::Months { count: 12 * count, day },
        };
        (count >= 1).then_some(Self { anchor, step })
    }

    /// The first date.
    pub const fn anchor(&self) -> Date {
        self.anchor
    }

    /// The date of a cycle, of which 0 is the first. None beyond the year 9999.
    pub fn nth(&self, n: u32) -> Option<Date> {
        match self.step {
            Step::Days(step) => self.anchor.plus_days(step.checked_mul(n.into())?),
            Step::Months { count, day } => {
                let months = count.checked_mul(n.into())?;
                Date::in_month(self.anchor.month_number().checked_add(months)?, day)
            }
        }
    }

    /// The first cycle whose date is this one or later.
    pub fn first_on_or_after(&self, date: Date) -> u32 {
        if date <= self.anchor {
            return 0;
        }
        let n = match self.step {
            Step::Days(step) => (date.number() - self.anchor.number() + step - 1) / step,
            Step::Months { count, day } => {
                let months = date.month_number() - self.anchor.month_number();
                let n = months / count;
                // The last cycle up to the end of this month may lie before the date; the one after it does not.
                let last = Date::in_month(self.anchor.month_number() + n * count, day);
                n + i64::from(last < Some(date))
            }
        };
        u32::try_from(n).expect("ten thousand years have fewer days")
    }

    /// The days of a cycle: from its date to the day before the next one's. None if the next one lies beyond the year 9999.
    pub fn period(&self, n: u32) -> Option<Period> {
        Some(Period { start: self.nth(n)?, end: self.nth(n.checked_add(1)?)? })
    }
}

/// The days of a cycle; at least one. Printed as `YYYY-MM-DD/YYYY-MM-DD`: the first day and the last.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Period {
    start: Date,
    end: Date,
}

impl Period {
    /// The first day: the date of the cycle.
    pub const fn start(self) -> Date {
        self.start
    }

    /// The day after the last: the date of the next cycle.
    pub const fn end(self) -> Date {
        self.end
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = self.end.plus_days(-1).expect("a day before the end, for there is one before it");
        write!(f, "{}/{last}", self.start)
    }
}

impl fmt::Debug for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

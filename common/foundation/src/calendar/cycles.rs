//! Cycles: evenly spaced dates, counted from an anchor.

use std::fmt;

use super::Date;

/// The unit of the step between two dates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "cadence_unit")]
pub enum Unit {
    #[sqlx(rename = "daily")]
    Day,
    #[sqlx(rename = "weekly")]
    Week,
    #[sqlx(rename = "monthly")]
    Month,
    #[sqlx(rename = "yearly")]
    Year,
}

impl Unit {
    /// All values, shortest first.
    pub const ALL: [Self; 4] = [Self::Day, Self::Week, Self::Month, Self::Year];
}

/// An infinite sequence of dates: the anchor plus n steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cycles {
    anchor: Date,
    step: Step,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// 1 or more.
    Days(i64),
    /// `count` is 1 or more. A month shorter than `day` yields its last day.
    Months { count: i64, day: i8 },
}

impl Cycles {
    /// The anchor and every `count` units after it. A month that lacks the anchor's day yields its last day; later
    /// months that have the day yield it again. Returns `None` unless `count` is 1 or more.
    pub fn new(anchor: Date, unit: Unit, count: i32) -> Option<Self> {
        Self::on_day(anchor, unit, count, anchor.day())
    }

    /// Like [`Self::new`], but months and years use `day` instead of the anchor's day.
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

    /// The date of cycle `n`, starting at 0; `None` after the year 9999.
    pub fn nth(&self, n: u32) -> Option<Date> {
        match self.step {
            Step::Days(step) => self.anchor.plus_days(step.checked_mul(n.into())?),
            Step::Months { count, day } => {
                let months = count.checked_mul(n.into())?;
                Date::in_month(self.anchor.month_number().checked_add(months)?, day)
            }
        }
    }

    /// The number of the first cycle whose date is `date` or later.
    pub fn first_on_or_after(&self, date: Date) -> u32 {
        if date <= self.anchor {
            return 0;
        }
        let n = match self.step {
            Step::Days(step) => (date.number() - self.anchor.number() + step - 1) / step,
            Step::Months { count, day } => {
                let months = date.month_number() - self.anchor.month_number();
                let n = months / count;
                // The last cycle up to the end of this month may be before the date; the next one is not.
                let last = Date::in_month(self.anchor.month_number() + n * count, day);
                n + i64::from(last < Some(date))
            }
        };
        u32::try_from(n).expect("10,000 years have fewer than 2^32 days")
    }

    /// The days of cycle `n`, up to the day before the next cycle; `None` if the next cycle is after the year 9999.
    pub fn period(&self, n: u32) -> Option<Period> {
        Some(Period { start: self.nth(n)?, end: self.nth(n.checked_add(1)?)? })
    }
}

/// The days of a cycle; at least one. Displayed as `YYYY-MM-DD/YYYY-MM-DD`, the first and the last day.
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
        let last = self.end.plus_days(-1).expect("a period has at least one day");
        write!(f, "{}/{last}", self.start)
    }
}

impl fmt::Debug for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

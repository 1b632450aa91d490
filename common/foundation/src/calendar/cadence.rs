//! Cadences: the dates on which a recurring invoice creates invoices.

use super::{Cycles, Date, Period, Unit};
use crate::error::{Error, Result};

/// The largest number of units between two invoices.
pub const MAX_INTERVAL: u8 = 36;

/// How often and on which day an invoice is created. Always a valid combination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cadence {
    unit: Unit,
    interval: u8,
    day: DayRule,
}

/// The day of the month. Daily and weekly cadences only have `OfStart`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DayRule {
    /// The day of the start date.
    OfStart,
    /// This day, or the last day of a shorter month.
    Nth(i8),
    /// The last day.
    Last,
}

impl Cadence {
    /// The name of a unit in the API.
    pub const fn unit_name(unit: Unit) -> &'static str {
        match unit {
            Unit::Day => "daily",
            Unit::Week => "weekly",
            Unit::Month => "monthly",
            Unit::Year => "yearly",
        }
    }

    /// Validates and builds a cadence.
    ///
    /// # Errors
    /// 422 `cadence.unit`, `cadence.interval`, `cadence.dayOfMonth` or `lastDayOfMonth`: an invalid value, or an
    /// invalid combination.
    pub fn parse(unit: &str, interval: i64, day_of_month: Option<i64>, last_day_of_month: bool) -> Result<Self> {
        let Some(unit) = Unit::ALL.into_iter().find(|candidate| Self::unit_name(*candidate) == unit) else {
            return Err(Error::invalid("cadence.unit", "unit must be one of daily, weekly, monthly, yearly"));
        };
        let invalid =
            || Error::invalid("cadence.interval", format!("interval must be a whole number from 1 to {MAX_INTERVAL}"));
        let interval = u8::try_from(interval).ok().filter(|n| (1..=MAX_INTERVAL).contains(n)).ok_or_else(invalid)?;
        let has_months = matches!(unit, Unit::Month | Unit::Year);
        let day = match (day_of_month, last_day_of_month) {
            (Some(_), _) if !has_months => {
                return Err(Error::invalid("cadence.dayOfMonth", "dayOfMonth requires the unit monthly or yearly"));
            }
            (_, true) if !has_months => {
                return Err(Error::invalid("lastDayOfMonth", "lastDayOfMonth requires the unit monthly or yearly"));
            }
            (Some(_), true) => {
                return Err(Error::invalid(
                    "lastDayOfMonth",
                    "lastDayOfMonth and cadence.dayOfMonth cannot be combined",
                ));
            }
            (Some(day), false) => {
                let invalid = || Error::invalid("cadence.dayOfMonth", "dayOfMonth must be a whole number from 1 to 31");
                DayRule::Nth(i8::try_from(day).ok().filter(|day| (1..=31).contains(day)).ok_or_else(invalid)?)
            }
            (None, true) => DayRule::Last,
            (None, false) => DayRule::OfStart,
        };
        Ok(Self { unit, interval, day })
    }

    pub const fn unit(&self) -> Unit {
        self.unit
    }

    /// The number of units between two invoices.
    pub const fn interval(&self) -> u8 {
        self.interval
    }

    /// The requested day of the month, from 1.
    pub const fn day_of_month(&self) -> Option<i8> {
        match self.day {
            DayRule::Nth(day) => Some(day),
            DayRule::OfStart | DayRule::Last => None,
        }
    }

    /// Whether the last day of the month was requested.
    pub const fn last_day_of_month(&self) -> bool {
        matches!(self.day, DayRule::Last)
    }

    /// Returns the dates from the first match on or after `start`; `None` if that is after the year 9999.
    fn starting(&self, start: Date) -> Option<Cycles> {
        let day = match self.day {
            DayRule::OfStart => start.day(),
            DayRule::Nth(day) => day,
            // A shorter month yields its last day.
            DayRule::Last => 31,
        };
        let anchor = match self.unit {
            Unit::Day | Unit::Week => Some(start),
            Unit::Month => Self::match_in(start, day, 1),
            Unit::Year => Self::match_in(start, day, 12),
        };
        Cycles::on_day(anchor?, self.unit, self.interval.into(), day)
    }

    /// Returns the day in the month of `start`, or `months` later if it is before `start`.
    fn match_in(start: Date, day: i8, months: i64) -> Option<Date> {
        let month = start.month_number();
        Date::in_month(month, day).filter(|date| *date >= start).or_else(|| Date::in_month(month + months, day))
    }
}

/// The dates of a recurring invoice, from its anchor to its end.
///
/// The anchor is the first day on or after the start that matches the cadence; intervals are counted from it. A yearly
/// cadence uses the month of the start. Building the schedule from the anchor gives the same schedule as building it
/// from the start, so only the anchor is stored. Changing the cadence makes a new schedule that starts today.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    cycles: Cycles,
    end: Option<Date>,
}

impl Schedule {
    /// Builds the schedule from its start or its anchor. `end` is the last day on which an invoice may be created.
    /// Returns `None` if the first date is after the year 9999.
    pub fn new(cadence: &Cadence, start: Date, end: Option<Date>) -> Option<Self> {
        Some(Self { cycles: cadence.starting(start)?, end })
    }

    /// The first date of the cadence, even if it is after the end.
    pub const fn anchor(&self) -> Date {
        self.cycles.anchor()
    }

    /// Returns the first cycle that starts on or after `date`, or `None` if the schedule has ended. The cycle's start
    /// is the date of the invoice, and the cycle is its billing period, which may extend past the end of the schedule.
    ///
    /// The cycle after a cycle is the first one on or after its end.
    pub fn on_or_after(&self, date: Date) -> Option<Period> {
        let cycle = self.cycles.period(self.cycles.first_on_or_after(date))?;
        self.end.is_none_or(|end| cycle.start() <= end).then_some(cycle)
    }
}

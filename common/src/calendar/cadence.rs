//! Cadences: on which dates a recurring invoice produces one.

use super::{Cycles, Date, Period, Unit};
use crate::error::{Error, Result};

/// How many units may lie between two invoices.
pub const MAX_INTERVAL: u8 = 36;

/// How often, and on which day. It can only be made of what goes together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cadence {
    unit: Unit,
    interval: u8,
    day: DayRule,
}

/// Which day of the month. Days and weeks have no choice but the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DayRule {
    /// That of the day on which it starts.
    OfStart,
    /// This one, or the last of a month that has fewer.
    Nth(i8),
    /// The last.
    Last,
}

impl Cadence {
    /// A unit, as the API reads and prints it.
    pub const fn unit_name(unit: Unit) -> &'static str {
        match unit {
            Unit::Day => "daily",
            Unit::Week => "weekly",
            Unit::Month => "monthly",
            Unit::Year => "yearly",
        }
    }

    /// A cadence of what was asked for.
    ///
    /// # Errors
    /// 422 `cadence.unit`, `cadence.interval`, `cadence.dayOfMonth` or `lastDayOfMonth`: a word or number that is none, or what
    /// does not go together.
    pub fn parse(unit: &str, interval: i64, day_of_month: Option<i64>, last_day_of_month: bool) -> Result<Self> {
        let Some(unit) = Unit::ALL.into_iter().find(|known| Self::unit_name(*known) == unit) else {
            return Err(Error::invalid("cadence.unit", "unit must be one of daily, weekly, monthly, yearly"));
        };
        let wrong =
            || Error::invalid("cadence.interval", format!("interval must be a whole number from 1 to {MAX_INTERVAL}"));
        let interval = u8::try_from(interval).ok().filter(|n| (1..=MAX_INTERVAL).contains(n)).ok_or_else(wrong)?;
        let of_months = matches!(unit, Unit::Month | Unit::Year);
        let day = match (day_of_month, last_day_of_month) {
            (Some(_), _) if !of_months => {
                return Err(Error::invalid("cadence.dayOfMonth", "dayOfMonth goes with monthly and yearly only"));
            }
            (_, true) if !of_months => {
                return Err(Error::invalid("lastDayOfMonth", "lastDayOfMonth goes with monthly and yearly only"));
            }
            (Some(_), true) => {
                return Err(Error::invalid(
                    "lastDayOfMonth",
                    "lastDayOfMonth and cadence.dayOfMonth exclude each other",
                ));
            }
            (Some(day), false) => {
                let wrong = || Error::invalid("cadence.dayOfMonth", "dayOfMonth must be a whole number from 1 to 31");
                DayRule::Nth(i8::try_from(day).ok().filter(|day| (1..=31).contains(day)).ok_or_else(wrong)?)
            }
            (None, true) => DayRule::Last,
            (None, false) => DayRule::OfStart,
        };
        Ok(Self { unit, interval, day })
    }

    /// The unit.
    pub const fn unit(&self) -> Unit {
        self.unit
    }

    /// How many units lie between two invoices.
    pub const fn interval(&self) -> u8 {
        self.interval
    }

    /// The day of the month, from 1, if one was asked for.
    pub const fn day_of_month(&self) -> Option<i8> {
        match self.day {
            DayRule::Nth(day) => Some(day),
            DayRule::OfStart | DayRule::Last => None,
        }
    }

    /// Whether the last day of the month was asked for.
    pub const fn last_day_of_month(&self) -> bool {
        matches!(self.day, DayRule::Last)
    }

    /// The dates from the first that matches on or after `start`. None if that lies beyond the year 9999.
    fn starting(&self, start: Date) -> Option<Cycles> {
        let day = match self.day {
            DayRule::OfStart => start.day(),
            DayRule::Nth(day) => day,
            // No month has more days, and one that has fewer gives its last.
            DayRule::Last => 31,
        };
        let anchor = match self.unit {
            Unit::Day | Unit::Week => Some(start),
            Unit::Month => Self::match_in(start, day, 1),
            Unit::Year => Self::match_in(start, day, 12),
        };
        Cycles::on_day(anchor?, self.unit, self.interval.into(), day)
    }

    /// This day in the month of `start`, or `months` later if it has passed.
    fn match_in(start: Date, day: i8, months: i64) -> Option<Date> {
        let month = start.month_number();
        Date::in_month(month, day).filter(|date| *date >= start).or_else(|| Date::in_month(month + months, day))
    }
}

/// The dates of a recurring invoice: from its anchor on, by its cadence, up to its end.
///
/// The anchor is the first day that matches the cadence on or after the start; the interval counts from there. A yearly cadence
/// is of the start's month. The same schedule comes of its anchor as of the start, so the anchor alone need be kept. Whoever
/// changes the cadence makes a new schedule that starts today.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    cycles: Cycles,
    end: Option<Date>,
}

impl Schedule {
    /// The schedule that starts on a day, or is anchored there. `end` is the last day on which an invoice may be produced. None
    /// if the first date lies beyond the year 9999.
    pub fn new(cadence: &Cadence, start: Date, end: Option<Date>) -> Option<Self> {
        Some(Self { cycles: cadence.starting(start)?, end })
    }

    /// The first date of the cadence, whether or not the end allows it.
    pub const fn anchor(&self) -> Date {
        self.cycles.anchor()
    }

    /// The first cycle on or after a day, whatever was or was not produced before: its start is the date of the invoice, and the
    /// whole its billing period, which the end of the schedule does not cut. None if the schedule has run its course.
    ///
    /// The cycle after a cycle is the first on or after its end.
    pub fn on_or_after(&self, date: Date) -> Option<Period> {
        let cycle = self.cycles.period(self.cycles.first_on_or_after(date))?;
        self.end.is_none_or(|end| cycle.start() <= end).then_some(cycle)
    }
}

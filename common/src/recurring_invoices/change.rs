//! What an update changes, and which day it leads to.

use super::{IssueMode, RecurringInvoice, Template};
use crate::calendar::{Cadence, Date, Schedule, Unit};
use crate::error::{Error, Result};

/// A cadence as it is sent: without the last day of the month, which is a field of its own.
#[derive(Clone, Copy, Debug)]
pub struct SentCadence {
    /// The unit.
    pub unit: Unit,
    /// How many units lie between two invoices.
    pub interval: i64,
    /// The day of the month.
    pub day_of_month: Option<i64>,
}

impl SentCadence {
    /// The cadence, with or without the last day of the month.
    ///
    /// # Errors
    /// As [`Cadence::parse`].
    pub fn with(self, last_day_of_month: bool) -> Result<Cadence> {
        Cadence::parse(Cadence::unit_name(self.unit), self.interval, self.day_of_month, last_day_of_month)
    }

    /// What was sent for this cadence.
    fn of(cadence: &Cadence) -> Self {
        Self {
            unit: cadence.unit(),
            interval: cadence.interval().into(),
            day_of_month: cadence.day_of_month().map(i64::from),
        }
    }
}

/// What an update changes; `None` changes nothing.
#[derive(Debug, Default)]
pub struct RecurringInvoiceChange {
    /// As sent: another customer than the recurring invoice has is refused.
    pub customer_id: Option<String>,
    /// What the merchant calls it.
    pub name: Option<String>,
    /// How often, and on which day.
    pub cadence: Option<SentCadence>,
    /// Whether on the last day of the month.
    pub last_day_of_month: Option<bool>,
    /// The day on which it starts.
    pub start_date: Option<Date>,
    /// The last day on which an invoice may be produced.
    pub end_date: Option<Date>,
    /// What becomes of each invoice.
    pub issue_mode: Option<IssueMode>,
    /// What each invoice is made of.
    pub template: Option<Template>,
}

/// Refuses an end before the start.
pub(super) fn check_order(start: Date, end: Option<Date>, param: &'static str) -> Result<()> {
    if end.is_some_and(|end| end < start) {
        return Err(Error::invalid(param, "endDate must not be before startDate"));
    }
    Ok(())
}

/// The dates from this day on.
pub(super) fn schedule(cadence: &Cadence, start: Date, end: Option<Date>) -> Result<Schedule> {
    let beyond = || Error::invalid("startDate", "no date of the cadence is in the years up to 9999");
    Schedule::new(cadence, start, end).ok_or_else(beyond)
}

impl RecurringInvoice {
    /// Takes over what an update changes. Answers the day from which the dates of an active one are to be found anew; none if
    /// they stay as they are. What is sent as it stands changes nothing.
    ///
    /// # Errors
    /// 422 naming the field at fault; then [`Error::Conflict`] for one that is over.
    pub fn change(&mut self, change: RecurringInvoiceChange, today: Date) -> Result<Option<Date>> {
        // An id has one spelling, so texts that differ name another customer or none.
        if change.customer_id.is_some_and(|sent| sent != self.customer_id.to_string()) {
            return Err(Error::invalid("customerId", "customerId of a recurring invoice cannot be changed"));
        }
        let last_day = change.last_day_of_month.unwrap_or(self.cadence.last_day_of_month());
        let cadence = change.cadence.unwrap_or_else(|| SentCadence::of(&self.cadence)).with(last_day)?;
        let start = change.start_date.unwrap_or(self.start_date);
        let end = change.end_date.or(self.end_date);
        check_order(start, end, if change.end_date.is_some() { "endDate" } else { "startDate" })?;
        let (moved, other_cadence) = (start != self.start_date, cadence != self.cadence);
        let from = match (moved, other_cadence) {
            (true, _) => start,
            // The former dates are over with the former cadence.
            (false, true) => start.max(today),
            (false, false) => self.anchor,
        };
        let schedule = schedule(&cadence, from, end)?;
        if self.status.is_over() {
            return Err(Error::conflict(format!("a recurring invoice that is {} stays as it is", self.status.name())));
        }
        let again = if moved || other_cadence {
            Some(today)
        } else {
            // Another end alone does not take away what was due and is not done yet.
            self.next.map(|next| next.date).filter(|_| end != self.end_date)
        };
        self.name = change.name.or(self.name.take());
        self.cadence = cadence;
        self.start_date = start;
        self.end_date = end;
        self.anchor = schedule.anchor();
        self.issue_mode = change.issue_mode.unwrap_or(self.issue_mode);
        if let Some(template) = change.template {
            self.template = template;
        }
        Ok(again)
    }
}

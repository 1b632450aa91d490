//! Updates of a recurring invoice, and their effect on its dates.

use super::recurring_invoice::{IssueMode, RecurringInvoice};
use super::template::Template;
use foundation::calendar::{Cadence, Date, Schedule, Unit};
use foundation::error::{Error, Result};
use foundation::merchant_data::{MerchantData, MerchantDataChange};

/// A cadence as sent, without `lastDayOfMonth`, which is a separate field of the request.
#[derive(Clone, Copy, Debug)]
pub struct SentCadence {
    pub unit: Unit,
    /// The number of units between two invoices.
    pub interval: i64,
    pub day_of_month: Option<i64>,
}

impl SentCadence {
    /// Validates and builds the cadence.
    ///
    /// # Errors
    /// As [`Cadence::parse`].
    pub fn with(self, last_day_of_month: bool) -> Result<Cadence> {
        Cadence::parse(Cadence::unit_name(self.unit), self.interval, self.day_of_month, last_day_of_month)
    }

    /// The input that gives this cadence.
    fn of(cadence: &Cadence) -> Self {
        Self {
            unit: cadence.unit(),
            interval: cadence.interval().into(),
            day_of_month: cadence.day_of_month().map(i64::from),
        }
    }
}

/// The fields to update; `None` leaves a field unchanged.
#[derive(Debug, Default)]
pub struct RecurringInvoiceChange {
    /// As sent. An id other than the recurring invoice's customer is rejected.
    pub customer_id: Option<String>,
    /// The merchant's label.
    pub name: Option<String>,
    pub cadence: Option<SentCadence>,
    pub last_day_of_month: Option<bool>,
    pub start_date: Option<Date>,
    /// The last day on which an invoice may be created.
    pub end_date: Option<Date>,
    pub issue_mode: Option<IssueMode>,
    pub template: Option<Template>,
    pub merchant_data: MerchantDataChange,
}

/// Rejects an end before the start.
pub(super) fn check_order(start: Date, end: Option<Date>, param: &'static str) -> Result<()> {
    if end.is_some_and(|end| end < start) {
        return Err(Error::invalid(param, "endDate must not be before startDate"));
    }
    Ok(())
}

/// Builds the schedule from `start`.
pub(super) fn schedule(cadence: &Cadence, start: Date, end: Option<Date>) -> Result<Schedule> {
    let out_of_range = || Error::invalid("startDate", "the cadence has no date before the year 10000");
    Schedule::new(cadence, start, end).ok_or_else(out_of_range)
}

impl RecurringInvoice {
    /// Applies an update. Returns the day from which to compute the next cycle of an active recurring invoice again;
    /// `None` if the next cycle does not change. A field sent with its current value changes nothing.
    ///
    /// # Errors
    /// 422 with the invalid field; otherwise [`Error::Conflict`] if the recurring invoice has ended.
    pub fn change(&mut self, change: RecurringInvoiceChange, today: Date) -> Result<Option<Date>> {
        // An id has only one text form, so comparing texts is enough.
        if change.customer_id.is_some_and(|sent| sent != self.customer_id.to_string()) {
            return Err(Error::invalid("customerId", "customerId of a recurring invoice cannot be changed"));
        }
        let last_day = change.last_day_of_month.unwrap_or(self.cadence.last_day_of_month());
        let cadence = change.cadence.unwrap_or_else(|| SentCadence::of(&self.cadence)).with(last_day)?;
        let start = change.start_date.unwrap_or(self.start_date);
        let end = change.end_date.or(self.end_date);
        check_order(start, end, if change.end_date.is_some() { "endDate" } else { "startDate" })?;
        let (start_changed, cadence_changed) = (start != self.start_date, cadence != self.cadence);
        let from = match (start_changed, cadence_changed) {
            (true, _) => start,
            // A new cadence is not counted from dates of the old one.
            (false, true) => start.max(today),
            (false, false) => self.anchor,
        };
        let schedule = schedule(&cadence, from, end)?;
        if self.status.is_over() {
            let status = self.status.name();
            return Err(Error::conflict(format!("a recurring invoice that is {status} cannot be changed")));
        }
        let merchant_data = MerchantData { metadata: self.metadata.take(), external_id: self.external_id.take() };
        MerchantData { metadata: self.metadata, external_id: self.external_id } =
            change.merchant_data.apply(merchant_data, self.version)?;
        let recompute_from = if start_changed || cadence_changed {
            Some(today)
        } else {
            // If only the end changes, a cycle that is due but not billed stays due.
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
        Ok(recompute_from)
    }
}

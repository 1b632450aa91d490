//! A recurring invoice and its changes of state.

use std::time::Duration;

use super::status::Status;
use super::template::Template;
use crate::accounts::Mode;
use foundation::calendar::{Cadence, Date, Period, Schedule, TimeZone};
use foundation::error::{Error, Result};
use foundation::id::{AccountId, CustomerId, RecurringInvoiceId};
use foundation::merchant_data::{ExternalId, Metadata};
use foundation::time::Timestamp;

/// Delays between a failure and the next try; one more failure parks the recurring invoice.
const RETRY_AFTER: [Duration; 2] = [Duration::from_secs(3600), Duration::from_secs(6 * 3600)];

#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "recurring_invoice_mode", rename_all = "snake_case")]
pub enum IssueMode {
    /// Invoices are issued immediately.
    AutoSend,
    /// Invoices stay drafts until the merchant issues them.
    DraftForReview,
}

impl IssueMode {
    /// All values, the default first.
    pub const ALL: [Self; 2] = [Self::AutoSend, Self::DraftForReview];

    /// The name in the API.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AutoSend => "auto_send",
            Self::DraftForReview => "draft_for_review",
        }
    }
}

/// The next cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    pub date: Date,
    /// When to create the invoice: at the start of that day, or later after a failure.
    pub run_at: Timestamp,
}

/// A recurring invoice as stored.
#[derive(Clone, Debug)]
pub struct RecurringInvoice {
    pub id: RecurringInvoiceId,
    pub account_id: AccountId,
    pub mode: Mode,
    pub customer_id: CustomerId,
    /// The merchant's label.
    pub name: Option<String>,
    pub status: Status,
    pub cadence: Cadence,
    /// As sent, or the day of creation.
    pub start_date: Date,
    /// The last day on which an invoice may be created.
    pub end_date: Option<Date>,
    /// The first date of the cadence, from which all dates are counted.
    pub anchor: Date,
    pub issue_mode: IssueMode,
    pub template: Template,
    /// The next cycle; set while active. Its date is after the last billed date.
    pub next: Option<Next>,
    /// The last date with an invoice, as of when `next` was last computed.
    pub last_billed: Option<Date>,
    /// Consecutive failures to create the invoice.
    pub failure_count: i32,
    /// Invoices created, including drafts.
    pub occurrence_count: i64,
    pub metadata: Option<Metadata>,
    pub external_id: Option<ExternalId>,
    /// Rises with each change that the API shows.
    pub version: i64,
    pub created_at: Timestamp,
}

impl RecurringInvoice {
    /// Returns the schedule.
    ///
    /// # Errors
    /// [`Error::Internal`] if it has no dates, which validation prevents.
    pub fn schedule(&self) -> Result<Schedule> {
        let schedule = Schedule::new(&self.cadence, self.anchor, self.end_date);
        schedule.ok_or_else(|| Error::internal(format!("the anchor of {} is after the end of the calendar", self.id)))
    }

    /// The first cycle on or after `from` and after the last date billed.
    ///
    /// # Errors
    /// As [`Self::schedule`].
    pub fn next_cycle(&self, from: Date) -> Result<Option<Period>> {
        let schedule = self.schedule()?;
        let Some(last) = self.last_billed else { return Ok(schedule.on_or_after(from)) };
        // There is no cycle after the last day of the calendar.
        Ok(last.plus_days(1).and_then(|next| schedule.on_or_after(from.max(next))))
    }

    /// Sets the next cycle and resets the failure count. `None` completes it.
    pub fn set_next_cycle(&mut self, cycle: Option<Period>, zone: &TimeZone) {
        self.next = cycle.map(|cycle| Next { date: cycle.start(), run_at: zone.beginning_of(cycle.start()) });
        self.status = if cycle.is_some() { Status::Active } else { Status::Completed };
        self.failure_count = 0;
    }

    pub(super) fn stop(&mut self, status: Status) {
        self.next = None;
        self.status = status;
        self.failure_count = 0;
    }

    /// Records that the invoice could not be created: keeps the date and schedules a retry, or parks.
    pub(super) fn fail(&mut self, now: Timestamp) {
        let retry = usize::try_from(self.failure_count).ok().and_then(|failures| RETRY_AFTER.get(failures));
        self.failure_count += 1;
        match (retry, &mut self.next) {
            (Some(after), Some(next)) => next.run_at = now.plus(*after),
            _ => {
                self.next = None;
                self.status = Status::Parked;
            }
        }
    }
}

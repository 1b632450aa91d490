//! The input for a new recurring invoice.

use super::change;
use super::recurring_invoice::{IssueMode, RecurringInvoice};
use super::status::Status;
use super::template::Template;
use crate::accounts::Caller;
use foundation::calendar::{Cadence, Date, TimeZone};
use foundation::error::{Error, Result};
use foundation::id::{CustomerId, RecurringInvoiceId};
use foundation::merchant_data::MerchantData;
use foundation::time::Timestamp;

/// The input for a new recurring invoice. Each field is valid on its own.
#[derive(Debug)]
pub struct NewRecurringInvoice {
    /// As sent. Parsed last: errors in the other fields take precedence over an unknown customer.
    pub customer_id: String,
    /// The merchant's label.
    pub name: Option<String>,
    pub cadence: Cadence,
    /// By default today.
    pub start_date: Option<Date>,
    /// The last day on which an invoice may be created.
    pub end_date: Option<Date>,
    pub issue_mode: IssueMode,
    pub template: Template,
    pub merchant_data: MerchantData,
}

impl NewRecurringInvoice {
    /// Builds the recurring invoice with a new id, without storing it. The first cycle is the first one on or after
    /// today: earlier cycles are not billed.
    ///
    /// # Errors
    /// 422 `endDate` or `startDate` if there is no cycle; [`Error::NotFound`] if `customer_id` is not a customer's id.
    pub fn into_recurring_invoice(self, caller: &Caller, zone: &TimeZone, now: Timestamp) -> Result<RecurringInvoice> {
        let today = zone.date_at(now);
        let start_date = self.start_date.unwrap_or(today);
        change::check_order(start_date, self.end_date, "endDate")?;
        let schedule = change::schedule(&self.cadence, start_date, self.end_date)?;
        let Some(first) = schedule.on_or_after(today) else {
            let param = if self.end_date.is_some() { "endDate" } else { "startDate" };
            return Err(Error::invalid(param, "no date is left on which an invoice would be created"));
        };
        let mut recurring = RecurringInvoice {
            id: RecurringInvoiceId::new(now),
            account_id: caller.account_id,
            mode: caller.mode,
            customer_id: CustomerId::from_request(&self.customer_id)?,
            name: self.name,
            status: Status::Active,
            cadence: self.cadence,
            start_date,
            end_date: self.end_date,
            anchor: schedule.anchor(),
            issue_mode: self.issue_mode,
            template: self.template,
            next: None,
            last_billed: None,
            failure_count: 0,
            occurrence_count: 0,
            metadata: self.merchant_data.metadata,
            external_id: self.merchant_data.external_id,
            version: 1,
            created_at: now,
        };
        recurring.set_next_cycle(Some(first), zone);
        Ok(recurring)
    }
}

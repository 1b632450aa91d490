//! When a subscription is billed. Pure rules on top of the calendar (docs/architecture-billing.md, "Calendar").

use super::{NewSubscription, Status, Subscription};
use crate::accounts::Caller;
use foundation::calendar::{Cycles, Date, Period, TimeZone};
use foundation::error::{Error, Result};
use foundation::id::SubscriptionId;
use foundation::time::Timestamp;

impl NewSubscription {
    /// The date from which billing dates are counted.
    pub fn anchor(&self, now: Timestamp) -> Date {
        self.start_at.unwrap_or_else(|| self.timezone.date_at(now))
    }
}

impl Subscription {
    /// Builds a subscription whose first cycle is the first one on or after today; earlier cycles are not billed.
    ///
    /// # Errors
    /// 422 `startAt` if that cycle does not end within the calendar.
    pub fn new(new: &NewSubscription, cycles: &Cycles, caller: &Caller, now: Timestamp) -> Result<Self> {
        let first = cycles.period(cycles.first_on_or_after(new.timezone.date_at(now)));
        let first = first.ok_or_else(|| Error::invalid("startAt", "the first cycle must end before the year 10000"))?;
        Ok(Self {
            id: SubscriptionId::new(now),
            account_id: caller.account_id,
            mode: caller.mode,
            customer_id: new.customer_id,
            plan_id: new.plan_id,
            payment_method_id: new.payment_method_id,
            status: Status::Scheduled,
            timezone: new.timezone.name().to_owned(),
            anchor: cycles.anchor(),
            current_period_start: None,
            current_period_end: None,
            next_billing_date: Some(first.start()),
            next_billing_at: Some(new.timezone.beginning_of(first.start())),
            retry_at: None,
            cancelled_at: None,
            description: new.description.clone(),
            latest_invoice_id: None,
            metadata: new.merchant_data.metadata.clone(),
            external_id: new.merchant_data.external_id.clone(),
            version: 1,
            created_at: now,
        })
    }

    /// Whether the next cycle is due.
    pub fn is_due(&self, at: Timestamp) -> bool {
        self.next_billing_at.is_some_and(|due| due.max(self.retry_at.unwrap_or(due)) <= at)
    }

    /// Recomputes when the next cycle starts: the time zone's rules may have changed since the time was stored.
    ///
    /// # Errors
    /// [`Error::Internal`] if this machine does not know the time zone.
    pub fn recompute_billing_time(&mut self) -> Result<()> {
        let zone = self.zone()?;
        self.next_billing_at = self.next_billing_date.map(|date| zone.beginning_of(date));
        self.retry_at = None;
        Ok(())
    }

    /// Moves to the next cycle and returns its period, which is to be billed.
    ///
    /// # Errors
    /// [`Error::Internal`] if there is no next cycle: the subscription is cancelled, the calendar ends, or the stored
    /// date is not the start of a cycle.
    pub fn begin_cycle(&mut self, cycles: &Cycles) -> Result<Period> {
        let (Some(status), Some(date)) = (self.status.billed(), self.next_billing_date) else {
            return Err(Error::internal(format!("{} is {:?} and has no next cycle", self.id, self.status)));
        };
        let period = cycles.period(cycles.first_on_or_after(date)).filter(|period| period.start() == date);
        let period = period.ok_or_else(|| Error::internal(format!("no cycle of {} starts on {date}", self.id)))?;
        let zone = self.zone()?;
        self.status = status;
        self.current_period_start = Some(zone.beginning_of(period.start()));
        self.current_period_end = Some(zone.beginning_of(period.end()));
        self.next_billing_date = Some(period.end());
        self.next_billing_at = self.current_period_end;
        self.retry_at = None;
        Ok(period)
    }

    fn zone(&self) -> Result<TimeZone> {
        self.timezone
            .parse()
            .map_err(|error| Error::internal(format!("time zone {:?} of {}: {error}", self.timezone, self.id)))
    }
}

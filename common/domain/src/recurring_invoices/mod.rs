//! Recurring invoices: create invoices on the dates of a cadence. The invoices record which cycles have been billed, so
//! finding the next cycle needs both tables and is done by a flow.

mod change;
mod status;
mod store;
mod template;
#[cfg(test)]
mod tests;
mod view;

use std::time::Duration;

use sqlx::{PgConnection, PgPool};

pub use change::{RecurringInvoiceChange, SentCadence};
pub use status::Status;
pub use template::Template;
pub use view::RecurringInvoiceView;

use crate::accounts::{Caller, Mode, Scope};
use crate::events::{self, EventType};
use foundation::calendar::{Cadence, Date, Period, Schedule, TimeZone};
use foundation::db::{self, Db, Tx};
use foundation::error::{Error, Result};
use foundation::id::{AccountId, CustomerId, RecurringInvoiceId};
use foundation::page::{Page, PageRequest, unknown_cursor};
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

    fn set_next_cycle(&mut self, cycle: Option<Period>, zone: &TimeZone) {
        self.next = cycle.map(|cycle| Next { date: cycle.start(), run_at: zone.beginning_of(cycle.start()) });
        self.status = if cycle.is_some() { Status::Active } else { Status::Completed };
        self.failure_count = 0;
    }

    fn stop(&mut self, status: Status) {
        self.next = None;
        self.status = status;
        self.failure_count = 0;
    }

    /// Records that the invoice could not be created: keeps the date and schedules a retry, or parks.
    fn fail(&mut self, now: Timestamp) {
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
}

/// Inserts a recurring invoice.
///
/// # Errors
/// [`Error::NotFound`] if the account has no such customer.
pub async fn insert(db: &mut PgConnection, recurring: &RecurringInvoice) -> Result<()> {
    store::insert(db, recurring).await.map_err(|error| match db::violated_constraint(&error) {
        Some("recurring_invoices_customer") => Error::no_such("customer", recurring.customer_id),
        _ => error.into(),
    })
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
            created_at: now,
        };
        recurring.set_next_cycle(Some(first), zone);
        Ok(recurring)
    }
}

/// Returns a recurring invoice.
///
/// # Errors
/// [`Error::NotFound`], also if it belongs to another account.
pub async fn retrieve(db: &PgPool, account: AccountId, id: RecurringInvoiceId) -> Result<RecurringInvoice> {
    store::find(db, account, id).await?.ok_or_else(|| Error::no_such("recurring invoice", id))
}

/// Returns a page of recurring invoices, newest first.
///
/// # Errors
/// 422 if the cursor is not a recurring invoice of the account.
pub async fn list(
    db: &PgPool,
    account: AccountId,
    page: PageRequest<RecurringInvoiceId>,
) -> Result<Page<RecurringInvoice>> {
    if let Some(cursor) = page.starting_after
        && store::find(db, account, cursor).await?.is_none()
    {
        return Err(unknown_cursor());
    }
    Ok(page.page(store::list(db, account, page.starting_after, page.fetch()).await?))
}

/// Pauses an active recurring invoice. Does nothing if it is already paused.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Conflict`] for any other status.
pub async fn pause(db: &Db, account: AccountId, id: RecurringInvoiceId, now: Timestamp) -> Result<RecurringInvoice> {
    stop(db, account, id, Status::Paused, EventType::RecurringInvoicePaused, now).await
}

/// Cancels a recurring invoice. Does nothing if it is already cancelled.
///
/// # Errors
/// [`Error::NotFound`].
pub async fn cancel(db: &Db, account: AccountId, id: RecurringInvoiceId, now: Timestamp) -> Result<RecurringInvoice> {
    stop(db, account, id, Status::Cancelled, EventType::RecurringInvoiceCancelled, now).await
}

async fn stop(
    db: &Db,
    account: AccountId,
    id: RecurringInvoiceId,
    status: Status,
    event: EventType,
    now: Timestamp,
) -> Result<RecurringInvoice> {
    let mut tx = db.begin().await?;
    let mut recurring = lock(&mut tx, account, id).await?;
    if recurring.status == status {
        return Ok(recurring);
    }
    if !recurring.status.may_become(status) {
        let (current, next) = (recurring.status.name(), status.name());
        return Err(Error::conflict(format!("a recurring invoice that is {current} cannot be {next}")));
    }
    recurring.stop(status);
    store::save(&mut tx, &recurring).await?;
    announce(&mut tx, &recurring, event, now).await?;
    tx.commit().await?;
    Ok(recurring)
}

/// Locks a recurring invoice. Lock order: the customer, then the recurring invoice, then its invoices.
///
/// # Errors
/// [`Error::NotFound`], also if it belongs to another account.
pub async fn lock(tx: &mut PgConnection, account: AccountId, id: RecurringInvoiceId) -> Result<RecurringInvoice> {
    store::lock(tx, account, id).await?.ok_or_else(|| Error::no_such("recurring invoice", id))
}

/// Stores the changes of a locked recurring invoice.
///
/// # Errors
/// Database errors only.
pub async fn save(tx: &mut PgConnection, recurring: &RecurringInvoice) -> Result<()> {
    store::save(tx, recurring).await
}

/// Sets the next cycle of a locked recurring invoice and resets its failure count. `None` completes it.
///
/// # Errors
/// Database errors only.
pub async fn set_next_cycle(
    tx: &mut Tx,
    recurring: &mut RecurringInvoice,
    cycle: Option<Period>,
    zone: &TimeZone,
    now: Timestamp,
) -> Result<()> {
    recurring.set_next_cycle(cycle, zone);
    store::save(tx, recurring).await?;
    if recurring.status == Status::Completed {
        announce(tx, recurring, EventType::RecurringInvoiceCompleted, now).await?;
    }
    Ok(())
}

/// Resumes a locked recurring invoice that is paused or parked, with this next cycle. `None` completes it.
///
/// # Errors
/// Database errors only.
pub async fn resume(
    tx: &mut Tx,
    recurring: &mut RecurringInvoice,
    cycle: Option<Period>,
    zone: &TimeZone,
    now: Timestamp,
) -> Result<()> {
    set_next_cycle(tx, recurring, cycle, zone, now).await?;
    if recurring.status == Status::Active {
        announce(tx, recurring, EventType::RecurringInvoiceResumed, now).await?;
    }
    Ok(())
}

/// Records that the next cycle of a locked recurring invoice could not be billed: schedules a retry, or parks it.
///
/// # Errors
/// Database errors only.
pub async fn fail(tx: &mut Tx, recurring: &mut RecurringInvoice, now: Timestamp) -> Result<()> {
    recurring.fail(now);
    store::save(tx, recurring).await?;
    if recurring.status == Status::Parked {
        announce(tx, recurring, EventType::RecurringInvoiceParked, now).await?;
    }
    Ok(())
}

async fn announce(tx: &mut Tx, recurring: &RecurringInvoice, kind: EventType, now: Timestamp) -> Result<()> {
    let livemode = recurring.mode == Mode::Live;
    events::append(tx, recurring.account_id, livemode, kind, &RecurringInvoiceView::new(recurring), now).await?;
    Ok(())
}

/// Returns the recurring invoices whose next cycle is due, longest overdue first.
///
/// # Errors
/// Database errors only.
pub async fn due(db: &PgPool, scope: Scope, limit: i64) -> Result<Vec<RecurringInvoiceId>> {
    store::due(db, scope, limit).await
}

/// Locks a recurring invoice if it is due, and returns it with its account's time. Returns `None` if it is no longer
/// due or its account's clock is being advanced; for all accounts, also if another transaction has locked it.
///
/// # Errors
/// Database errors only.
pub async fn lock_due(
    tx: &mut PgConnection,
    id: RecurringInvoiceId,
    scope: Scope,
) -> Result<Option<(RecurringInvoice, Timestamp)>> {
    if !scope.hold(tx).await? {
        return Ok(None);
    }
    let Some(recurring) = store::lock_due(tx, id, scope).await? else { return Ok(None) };
    let now = match scope {
        Scope::AllAccounts(at) => store::account_now(tx, recurring.account_id, at).await?,
        Scope::Account(_, at) | Scope::Advance(_, at) => at,
    };
    Ok(Some((recurring, now)))
}

/// Returns when the account's next cycle is due.
///
/// # Errors
/// Database errors only.
pub async fn next_due(db: &PgPool, account: AccountId) -> Result<Option<Timestamp>> {
    store::next_due(db, account).await
}

/// Counts the account's active recurring invoices, up to `limit`.
///
/// # Errors
/// Database errors only.
pub async fn count_running(tx: &mut PgConnection, account: AccountId, limit: i64) -> Result<i64> {
    store::count_running(tx, account, limit).await
}

/// Returns since when the longest overdue cycle of all accounts has been due.
///
/// # Errors
/// Database errors only.
pub async fn oldest_due(db: &PgPool, now: Timestamp) -> Result<Option<Timestamp>> {
    store::oldest_due(db, now).await
}

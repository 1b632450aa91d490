//! Recurring invoices: what produces an invoice again and again, on the dates of a cadence. Which of its cycles have been
//! produced the invoices tell, so whatever looks for the next one is a flow.

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
use crate::calendar::{Cadence, Date, Period, Schedule, TimeZone};
use crate::db::{self, Db, Tx};
use crate::error::{Error, Result};
use crate::events::{self, EventType};
use crate::id::{AccountId, CustomerId, RecurringInvoiceId};
use crate::page::{Page, PageRequest, unknown_cursor};
use crate::time::Timestamp;

/// How long after a failure the invoice is tried again; the failure after the last of these parks.
const RETRY_AFTER: [Duration; 2] = [Duration::from_secs(3600), Duration::from_secs(6 * 3600)];

/// What becomes of each invoice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "recurring_invoice_mode", rename_all = "snake_case")]
pub enum IssueMode {
    /// It is issued.
    AutoSend,
    /// It stays a draft, which the merchant issues.
    DraftForReview,
}

impl IssueMode {
    /// Every one, the one that holds if nothing is said first.
    pub const ALL: [Self; 2] = [Self::AutoSend, Self::DraftForReview];

    /// As the API reads and prints it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AutoSend => "auto_send",
            Self::DraftForReview => "draft_for_review",
        }
    }
}

/// The cycle that is produced next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    /// Its date.
    pub date: Date,
    /// When to produce it: at the beginning of that day, or later after a failure.
    pub run_at: Timestamp,
}

/// A recurring invoice as stored.
#[derive(Clone, Debug)]
pub struct RecurringInvoice {
    /// Its id.
    pub id: RecurringInvoiceId,
    /// Whose it is.
    pub account_id: AccountId,
    /// The account's mode.
    pub mode: Mode,
    /// Who owes its invoices.
    pub customer_id: CustomerId,
    /// What the merchant calls it.
    pub name: Option<String>,
    /// Where it stands.
    pub status: Status,
    /// How often, and on which day.
    pub cadence: Cadence,
    /// The day on which it starts, as agreed.
    pub start_date: Date,
    /// The last day on which an invoice may be produced.
    pub end_date: Option<Date>,
    /// The first date of the cadence; every other is counted from it.
    pub anchor: Date,
    /// What becomes of each invoice.
    pub issue_mode: IssueMode,
    /// What each invoice is made of.
    pub template: Template,
    /// The next cycle, of an active one. Its date is after the last that was billed.
    pub next: Option<Next>,
    /// The last date that has an invoice, as known when its next date was last found.
    pub last_billed: Option<Date>,
    /// How often it could not be produced, in a row.
    pub failure_count: i32,
    /// Invoices produced, drafts included.
    pub occurrence_count: i64,
    /// When it was made.
    pub created_at: Timestamp,
}

impl RecurringInvoice {
    /// Its dates.
    ///
    /// # Errors
    /// [`Error::Internal`] if it has none, which nothing that was written can bring about.
    pub fn schedule(&self) -> Result<Schedule> {
        let schedule = Schedule::new(&self.cadence, self.anchor, self.end_date);
        schedule.ok_or_else(|| Error::internal(format!("{} is anchored beyond the calendar", self.id)))
    }

    /// It goes on with this cycle, from a fresh start; without one it has run its course.
    fn go_on(&mut self, cycle: Option<Period>, zone: &TimeZone) {
        self.next = cycle.map(|cycle| Next { date: cycle.start(), run_at: zone.beginning_of(cycle.start()) });
        self.status = if cycle.is_some() { Status::Active } else { Status::Completed };
        self.failure_count = 0;
    }

    /// It produces nothing from here on.
    fn stop(&mut self, status: Status) {
        self.next = None;
        self.status = status;
        self.failure_count = 0;
    }

    /// Its invoice could not be produced. It keeps its date, and is tried again a while later or parked.
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

/// A recurring invoice to be made. Its fields have been checked, each for itself.
#[derive(Debug)]
pub struct NewRecurringInvoice {
    /// Who is to owe its invoices, as sent: whom it names comes after what it says.
    pub customer_id: String,
    /// What the merchant calls it.
    pub name: Option<String>,
    /// How often, and on which day.
    pub cadence: Cadence,
    /// The day on which it starts; today if none is said.
    pub start_date: Option<Date>,
    /// The last day on which an invoice may be produced.
    pub end_date: Option<Date>,
    /// What becomes of each invoice.
    pub issue_mode: IssueMode,
    /// What each invoice is made of.
    pub template: Template,
}

/// Writes a recurring invoice that was made of what a request says.
///
/// # Errors
/// [`Error::NotFound`] for an unknown customer, another account's too.
pub async fn insert(db: &mut PgConnection, recurring: &RecurringInvoice) -> Result<()> {
    store::insert(db, recurring).await.map_err(|error| match db::violated(&error) {
        Some("recurring_invoices_customer") => Error::no_such("customer", recurring.customer_id),
        _ => error.into(),
    })
}

impl NewRecurringInvoice {
    /// What it makes. Its first cycle is the first on or after today: there is no backlog.
    ///
    /// # Errors
    /// 422 `endDate` or `startDate` if there is no cycle; [`Error::NotFound`] for what is no customer's id.
    pub fn starting(self, caller: &Caller, zone: &TimeZone, now: Timestamp) -> Result<RecurringInvoice> {
        let today = zone.date_at(now);
        let start_date = self.start_date.unwrap_or(today);
        change::check_order(start_date, self.end_date, "endDate")?;
        let schedule = change::schedule(&self.cadence, start_date, self.end_date)?;
        let Some(first) = schedule.on_or_after(today) else {
            let param = if self.end_date.is_some() { "endDate" } else { "startDate" };
            return Err(Error::invalid(param, "there is no date left on which an invoice would be produced"));
        };
        let mut recurring = RecurringInvoice {
            id: RecurringInvoiceId::new(now),
            account_id: caller.account_id,
            mode: caller.mode,
            customer_id: CustomerId::named(&self.customer_id)?,
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
        recurring.go_on(Some(first), zone);
        Ok(recurring)
    }
}

/// One recurring invoice.
///
/// # Errors
/// [`Error::NotFound`], for another account's too.
pub async fn retrieve(db: &PgPool, account: AccountId, id: RecurringInvoiceId) -> Result<RecurringInvoice> {
    store::find(db, account, id).await?.ok_or_else(|| Error::no_such("recurring invoice", id))
}

/// A page of recurring invoices, newest first.
///
/// # Errors
/// 422 for a cursor that names no recurring invoice of the account.
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

/// Stops an active one for a while. One that is paused stays as it is.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Conflict`] for one that is neither.
pub async fn pause(db: &Db, account: AccountId, id: RecurringInvoiceId, now: Timestamp) -> Result<RecurringInvoice> {
    stop(db, account, id, Status::Paused, EventType::RecurringInvoicePaused, now).await
}

/// Stops it for good. One that is cancelled stays as it is.
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
        let (is, wanted) = (recurring.status.name(), status.name());
        return Err(Error::conflict(format!("a recurring invoice that is {is} cannot be {wanted}")));
    }
    recurring.stop(status);
    store::save(&mut tx, &recurring).await?;
    announce(&mut tx, &recurring, event, now).await?;
    tx.commit().await?;
    Ok(recurring)
}

/// Locks a recurring invoice. It is locked after its customer and before its invoices.
///
/// # Errors
/// [`Error::NotFound`], for another account's too.
pub async fn lock(tx: &mut PgConnection, account: AccountId, id: RecurringInvoiceId) -> Result<RecurringInvoice> {
    store::lock(tx, account, id).await?.ok_or_else(|| Error::no_such("recurring invoice", id))
}

/// Writes what was changed of one that is locked.
///
/// # Errors
/// Only the database's.
pub async fn save(tx: &mut PgConnection, recurring: &RecurringInvoice) -> Result<()> {
    store::save(tx, recurring).await
}

/// Makes this the next cycle of one that is locked, and ends a series of failures; without a cycle it has run its course.
///
/// # Errors
/// Only the database's.
pub async fn go_on(
    tx: &mut Tx,
    recurring: &mut RecurringInvoice,
    cycle: Option<Period>,
    zone: &TimeZone,
    now: Timestamp,
) -> Result<()> {
    recurring.go_on(cycle, zone);
    store::save(tx, recurring).await?;
    if recurring.status == Status::Completed {
        announce(tx, recurring, EventType::RecurringInvoiceCompleted, now).await?;
    }
    Ok(())
}

/// Lets one that is locked, and was paused or parked, go on with this cycle; without one it has run its course.
///
/// # Errors
/// Only the database's.
pub async fn resume(
    tx: &mut Tx,
    recurring: &mut RecurringInvoice,
    cycle: Option<Period>,
    zone: &TimeZone,
    now: Timestamp,
) -> Result<()> {
    go_on(tx, recurring, cycle, zone, now).await?;
    if recurring.status == Status::Active {
        announce(tx, recurring, EventType::RecurringInvoiceResumed, now).await?;
    }
    Ok(())
}

/// Notes that the next cycle of one that is locked could not be produced: it is tried again, or parked.
///
/// # Errors
/// Only the database's.
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

/// Those whose next cycle is due, the one that has waited longest first.
///
/// # Errors
/// Only the database's.
pub async fn due(db: &PgPool, scope: Scope, limit: i64) -> Result<Vec<RecurringInvoiceId>> {
    store::due(db, scope, limit).await
}

/// Locks one that is due, and says what time it is for its account. None if it is no longer due; or, of everyone's, if
/// somebody else is at it.
///
/// # Errors
/// Only the database's.
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
        Scope::Everyone(at) => store::account_now(tx, recurring.account_id, at).await?,
        Scope::Account(_, at) | Scope::Advance(_, at) => at,
    };
    Ok(Some((recurring, now)))
}

/// When the next cycle of the account is due.
///
/// # Errors
/// Only the database's.
pub async fn next_due(db: &PgPool, account: AccountId) -> Result<Option<Timestamp>> {
    store::next_due(db, account).await
}

/// How many of the account are active, so many at most.
///
/// # Errors
/// Only the database's.
pub async fn count_running(tx: &mut PgConnection, account: AccountId, most: i64) -> Result<i64> {
    store::count_running(tx, account, most).await
}

/// Since when the cycle has been due that has waited longest, of everyone's.
///
/// # Errors
/// Only the database's.
pub async fn oldest_due(db: &PgPool, now: Timestamp) -> Result<Option<Timestamp>> {
    store::oldest_due(db, now).await
}

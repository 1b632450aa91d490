//! Recurring invoices: create invoices on the dates of a cadence. The invoices record which cycles have been billed, so
//! finding the next cycle needs both tables and is done in `engine`.

mod change;
mod creation;
mod list;
mod recurring_invoice;
mod status;
mod template;
#[cfg(test)]
mod tests;
mod view;

use sqlx::{PgConnection, PgPool};

pub use change::{RecurringInvoiceChange, SentCadence};
pub use creation::NewRecurringInvoice;
pub use list::{Filter, list};
pub use recurring_invoice::{IssueMode, Next, RecurringInvoice};
pub use status::Status;
pub use template::Template;
pub use view::RecurringInvoiceView;

use crate::accounts::{Mode, Scope};
use crate::events::{self, EventType};
use foundation::calendar::{Cadence, Date, Period, TimeZone, Unit};
use foundation::db::{self, Db, Tx};
use foundation::error::{Error, Result};
use foundation::id::{AccountId, CustomerId, RecurringInvoiceId};
use foundation::own_data::{ExternalId, Metadata};
use foundation::time::Timestamp;

/// A database row, before the cadence is parsed.
struct Row {
    id: RecurringInvoiceId,
    account_id: AccountId,
    account_mode: Mode,
    customer_id: CustomerId,
    name: Option<String>,
    status: Status,
    cadence_unit: Unit,
    cadence_interval: i32,
    day_of_month: Option<i32>,
    last_day_of_month: bool,
    start_date: Date,
    end_date: Option<Date>,
    anchor: Date,
    mode: IssueMode,
    template: Template,
    next_date: Option<Date>,
    next_run_at: Option<Timestamp>,
    last_billed_date: Option<Date>,
    failure_count: i32,
    occurrence_count: i64,
    metadata: Option<Metadata>,
    external_id: Option<ExternalId>,
    version: i64,
    created_at: Timestamp,
}

impl Row {
    fn parse(self) -> Result<RecurringInvoice> {
        let cadence = Cadence::parse(
            Cadence::unit_name(self.cadence_unit),
            self.cadence_interval.into(),
            self.day_of_month.map(i64::from),
            self.last_day_of_month,
        );
        Ok(RecurringInvoice {
            id: self.id,
            account_id: self.account_id,
            mode: self.account_mode,
            customer_id: self.customer_id,
            name: self.name,
            status: self.status,
            cadence: cadence.map_err(|error| Error::internal(format!("invalid cadence of {}: {error}", self.id)))?,
            start_date: self.start_date,
            end_date: self.end_date,
            anchor: self.anchor,
            issue_mode: self.mode,
            template: self.template,
            next: self.next_date.zip(self.next_run_at).map(|(date, run_at)| Next { date, run_at }),
            last_billed: self.last_billed_date,
            failure_count: self.failure_count,
            occurrence_count: self.occurrence_count,
            metadata: self.metadata,
            external_id: self.external_id,
            version: self.version,
            created_at: self.created_at,
        })
    }
}

/// Selects every column of a recurring invoice; all queries share this list.
macro_rules! select_recurring_invoices {
    ($rest:literal, $($arg:expr),* $(,)?) => {
        sqlx::query_as!(
            Row,
            "SELECT r.id, r.account_id, a.mode AS account_mode, r.customer_id, r.name, r.status, r.cadence_unit,
                    r.cadence_interval, r.day_of_month, r.last_day_of_month, r.start_date, r.end_date, r.anchor, r.mode,
                    r.template, r.next_date, r.next_run_at, r.last_billed_date, r.failure_count, r.occurrence_count,
                    r.metadata, r.external_id, r.version, r.created_at
             FROM recurring_invoices r JOIN accounts a ON a.id = r.account_id " + $rest,
            $($arg),*
        )
    };
}

use select_recurring_invoices;

/// Inserts a recurring invoice.
///
/// # Errors
/// [`Error::NotFound`] if the account has no such customer.
pub async fn insert(db: &mut PgConnection, recurring: &RecurringInvoice) -> Result<()> {
    let query = sqlx::query!(
        "INSERT INTO recurring_invoices (id, account_id, customer_id, name, status, cadence_unit, cadence_interval,
                day_of_month, last_day_of_month, start_date, end_date, anchor, mode, template, next_date, next_run_at,
                created_at, metadata, external_id)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)",
        recurring.id.uuid(),
        recurring.account_id.uuid(),
        recurring.customer_id.uuid(),
        recurring.name,
        recurring.status as Status,
        recurring.cadence.unit() as Unit,
        i32::from(recurring.cadence.interval()),
        recurring.cadence.day_of_month().map(i32::from),
        recurring.cadence.last_day_of_month(),
        recurring.start_date,
        recurring.end_date,
        recurring.anchor,
        recurring.issue_mode as IssueMode,
        &recurring.template as &Template,
        recurring.next.map(|next| next.date),
        recurring.next.map(|next| next.run_at),
        recurring.created_at,
        recurring.metadata.as_ref() as Option<&Metadata>,
        recurring.external_id.as_deref(),
    );
    query.execute(db).await.map(|_| ()).map_err(|error| match db::violated_constraint(&error) {
        Some("recurring_invoices_customer") => Error::no_such("customer", recurring.customer_id),
        _ => error.into(),
    })
}

/// Returns a recurring invoice.
///
/// # Errors
/// [`Error::NotFound`], also if it belongs to another account.
pub async fn retrieve(db: &PgPool, account: AccountId, id: RecurringInvoiceId) -> Result<RecurringInvoice> {
    find(db, account, id).await?.ok_or_else(|| Error::no_such("recurring invoice", id))
}

async fn find(db: &PgPool, account: AccountId, id: RecurringInvoiceId) -> Result<Option<RecurringInvoice>> {
    let query = select_recurring_invoices!("WHERE r.account_id = $1 AND r.id = $2", account.uuid(), id.uuid());
    query.fetch_optional(db).await?.map(Row::parse).transpose()
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
    save(&mut tx, &mut recurring).await?;
    announce(&mut tx, &recurring, event, now).await?;
    tx.commit().await?;
    Ok(recurring)
}

/// Locks a recurring invoice. Lock order: the customer, then the recurring invoice, then its invoices.
///
/// # Errors
/// [`Error::NotFound`], also if it belongs to another account.
pub async fn lock(tx: &mut PgConnection, account: AccountId, id: RecurringInvoiceId) -> Result<RecurringInvoice> {
    let query = select_recurring_invoices!(
        "WHERE r.account_id = $1 AND r.id = $2 FOR NO KEY UPDATE OF r",
        account.uuid(),
        id.uuid(),
    );
    query.fetch_optional(tx).await?.ok_or_else(|| Error::no_such("recurring invoice", id))?.parse()
}

/// Stores the changes of a locked recurring invoice.
///
/// # Errors
/// Database errors only.
pub async fn save(tx: &mut PgConnection, recurring: &mut RecurringInvoice) -> Result<()> {
    recurring.version = sqlx::query_scalar!(
        "UPDATE recurring_invoices SET name = $3, status = $4, cadence_unit = $5, cadence_interval = $6,
                day_of_month = $7, last_day_of_month = $8, start_date = $9, end_date = $10, anchor = $11, mode = $12,
                template = $13, next_date = $14, next_run_at = $15, failure_count = $16, occurrence_count = $17,
                last_billed_date = $18, metadata = $19, external_id = $20
         WHERE account_id = $1 AND id = $2 RETURNING version",
        recurring.account_id.uuid(),
        recurring.id.uuid(),
        recurring.name,
        recurring.status as Status,
        recurring.cadence.unit() as Unit,
        i32::from(recurring.cadence.interval()),
        recurring.cadence.day_of_month().map(i32::from),
        recurring.cadence.last_day_of_month(),
        recurring.start_date,
        recurring.end_date,
        recurring.anchor,
        recurring.issue_mode as IssueMode,
        &recurring.template as &Template,
        recurring.next.map(|next| next.date),
        recurring.next.map(|next| next.run_at),
        recurring.failure_count,
        recurring.occurrence_count,
        recurring.last_billed,
        recurring.metadata.as_ref() as Option<&Metadata>,
        recurring.external_id.as_deref(),
    )
    .fetch_one(tx)
    .await?;
    Ok(())
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
    save(tx, recurring).await?;
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
    save(tx, recurring).await?;
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
    let due = match scope {
        Scope::AllAccounts(at) => {
            let query = sqlx::query_scalar!(
                "SELECT id FROM recurring_invoices WHERE next_run_at <= $1 AND NOT is_advancing(account_id)
                 ORDER BY next_run_at LIMIT $2",
                at,
                limit,
            );
            query.fetch_all(db).await?
        }
        Scope::Account(account, at) | Scope::Advance(account, at) => {
            let query = sqlx::query_scalar!(
                "SELECT id FROM recurring_invoices WHERE next_run_at IS NOT NULL
                   AND (account_id, next_run_at) >= ($1, '-infinity') AND (account_id, next_run_at) <= ($1, $2)
                 ORDER BY account_id, next_run_at LIMIT $3",
                account.uuid(),
                at,
                limit,
            );
            query.fetch_all(db).await?
        }
    };
    Ok(due)
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
    let Some(recurring) = lock_row_if_due(tx, id, scope).await? else { return Ok(None) };
    let now = match scope {
        Scope::AllAccounts(at) => account_now(tx, recurring.account_id, at).await?,
        Scope::Account(_, at) | Scope::Advance(_, at) => at,
    };
    Ok(Some((recurring, now)))
}

/// Locks a recurring invoice if it is due. For all accounts, skips it if another transaction has locked it; for one
/// account, waits for the lock.
async fn lock_row_if_due(
    tx: &mut PgConnection,
    id: RecurringInvoiceId,
    scope: Scope,
) -> Result<Option<RecurringInvoice>> {
    let row = match scope {
        Scope::AllAccounts(at) => {
            let query = select_recurring_invoices!(
                "WHERE r.id = $1 AND r.next_run_at <= $2 AND hold_clock(r.account_id)
                 FOR NO KEY UPDATE OF r SKIP LOCKED",
                id.uuid(),
                at,
            );
            query.fetch_optional(tx).await?
        }
        Scope::Account(_, at) | Scope::Advance(_, at) => {
            let query = select_recurring_invoices!(
                "WHERE r.id = $1 AND r.next_run_at <= $2 FOR NO KEY UPDATE OF r",
                id.uuid(),
                at,
            );
            query.fetch_optional(tx).await?
        }
    };
    row.map(Row::parse).transpose()
}

/// Returns the account's time when the real time is `at`.
async fn account_now(tx: &mut PgConnection, account: AccountId, at: Timestamp) -> Result<Timestamp> {
    let now = sqlx::query_scalar!(r#"SELECT account_now($1, $2) AS "now!""#, account.uuid(), at);
    Ok(now.fetch_one(tx).await?)
}

/// Returns when the account's next cycle is due.
///
/// # Errors
/// Database errors only.
pub async fn next_due(db: &PgPool, account: AccountId) -> Result<Option<Timestamp>> {
    let query = sqlx::query_scalar!(
        r#"SELECT next_run_at AS "next_run_at!" FROM recurring_invoices
           WHERE next_run_at IS NOT NULL AND (account_id, next_run_at) >= ($1, '-infinity')
             AND (account_id, next_run_at) <= ($1, 'infinity') ORDER BY account_id, next_run_at LIMIT 1"#,
        account.uuid(),
    );
    Ok(query.fetch_optional(db).await?)
}

/// Counts the account's active recurring invoices, up to `limit`. `next_run_at` is set exactly while a recurring
/// invoice is active.
///
/// # Errors
/// Database errors only.
pub async fn count_running(tx: &mut PgConnection, account: AccountId, limit: i64) -> Result<i64> {
    let query = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM (
             SELECT FROM recurring_invoices
             WHERE next_run_at IS NOT NULL AND (account_id, next_run_at) >= ($1, '-infinity')
               AND (account_id, next_run_at) <= ($1, 'infinity') ORDER BY account_id, next_run_at LIMIT $2) running"#,
        account.uuid(),
        limit,
    );
    Ok(query.fetch_one(tx).await?)
}

/// Returns since when the longest overdue cycle of all accounts has been due.
///
/// # Errors
/// Database errors only.
pub async fn oldest_due(db: &PgPool, now: Timestamp) -> Result<Option<Timestamp>> {
    let query = sqlx::query_scalar!(
        r#"SELECT next_run_at AS "next_run_at!" FROM recurring_invoices
           WHERE next_run_at <= $1 AND NOT is_advancing(account_id) ORDER BY next_run_at LIMIT 1"#,
        now,
    );
    Ok(query.fetch_optional(db).await?)
}

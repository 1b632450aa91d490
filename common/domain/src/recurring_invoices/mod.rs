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

use std::collections::HashMap;
use std::time::Duration;

use sqlx::{PgConnection, PgPool};

pub use change::{RecurringInvoiceChange, SentCadence};
pub use creation::NewRecurringInvoice;
pub use list::{Filter, list};
pub use recurring_invoice::{IssueMode, Next, RecurringInvoice};
pub use status::Status;
pub use template::Template;
pub use view::RecurringInvoiceView;

use crate::accounts::{Mode, Scope};
use crate::events::{self, Event, EventType};
use foundation::calendar::{Cadence, Date, Period, TimeZone, Unit};
use foundation::db::{self, Db, Tx, column};
use foundation::error::{Error, Result};
use foundation::id::{AccountId, CustomerId, RecurringInvoiceId};
use foundation::merchant_data::{ExternalId, Metadata};
use foundation::time::Timestamp;

/// When a recurring invoice whose failure cannot be recorded is tried again.
const DEFERRAL: Duration = Duration::from_secs(10 * 60);

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

/// Stores what billing a cycle changes of locked recurring invoices, and announces those that have been completed.
///
/// # Errors
/// Database errors only.
pub async fn save_billed(tx: &mut Tx, billed: &[(RecurringInvoice, Timestamp)]) -> Result<()> {
    let saved = sqlx::query!(
        "UPDATE recurring_invoices r SET status = n.status, next_date = n.next_date, next_run_at = n.next_run_at,
                failure_count = n.failure_count, occurrence_count = n.occurrence_count,
                last_billed_date = n.last_billed_date
         FROM unnest($1::uuid[], $2::recurring_invoice_status[], $3::date[], $4::timestamptz[], $5::int4[], $6::int8[],
                $7::date[])
             AS n (id, status, next_date, next_run_at, failure_count, occurrence_count, last_billed_date)
         WHERE r.id = n.id RETURNING r.id, r.version",
        &column(billed, |(recurring, _)| recurring.id.uuid()),
        &column(billed, |(recurring, _)| recurring.status) as &[Status],
        &column(billed, |(recurring, _)| recurring.next.map(|next| next.date)) as &[Option<Date>],
        &column(billed, |(recurring, _)| recurring.next.map(|next| next.run_at)) as &[Option<Timestamp>],
        &column(billed, |(recurring, _)| recurring.failure_count),
        &column(billed, |(recurring, _)| recurring.occurrence_count),
        &column(billed, |(recurring, _)| recurring.last_billed) as &[Option<Date>],
    )
    .fetch_all(&mut **tx)
    .await?;
    let versions: HashMap<_, _> = saved.into_iter().map(|row| (row.id, row.version)).collect();
    let completed = billed.iter().filter(|(recurring, _)| recurring.status == Status::Completed);
    let completed = completed.map(|(recurring, now)| {
        let version = *versions.get(&recurring.id).ok_or(sqlx::Error::RowNotFound)?;
        event(&RecurringInvoice { version, ..recurring.clone() }, EventType::RecurringInvoiceCompleted, *now)
    });
    let completed: Vec<_> = completed.collect::<Result<_>>()?;
    events::append_all(tx, &completed).await
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

/// Defers a due recurring invoice that is locked and whose failure cannot be recorded, so that it does not block the others.
/// Nothing of it is read. An advance of a test clock does so by itself.
///
/// # Errors
/// Database errors only.
pub async fn defer(tx: &mut PgConnection, id: RecurringInvoiceId, scope: Scope) -> Result<()> {
    let now = match scope {
        Scope::AllAccounts(now) | Scope::Account(_, now) => now,
        Scope::Advance(..) => return Ok(()),
    };
    sqlx::query!(
        "UPDATE recurring_invoices SET next_run_at = $2 WHERE id = $1 AND next_run_at <= $3",
        id.uuid(),
        now.plus(DEFERRAL),
        now,
    )
    .execute(tx)
    .await?;
    Ok(())
}

async fn announce(tx: &mut Tx, recurring: &RecurringInvoice, kind: EventType, now: Timestamp) -> Result<()> {
    events::append_all(tx, &[event(recurring, kind, now)?]).await
}

fn event(recurring: &RecurringInvoice, kind: EventType, now: Timestamp) -> Result<(AccountId, Event)> {
    let livemode = recurring.mode == Mode::Live;
    let event = events::render(livemode, kind, &RecurringInvoiceView::new(recurring), now)?;
    Ok((recurring.account_id, event))
}

/// Locks at most `limit` recurring invoices whose next cycle is due, and returns them with their accounts' times. For all
/// accounts, longest overdue first, it skips those that are locked and those of an account whose clock is being advanced. For
/// one account, it waits for the locks. They are returned by account, because a batch of which a part is rejected locks the
/// counters of its accounts part by part.
///
/// # Errors
/// Database errors only.
pub async fn lock_due(tx: &mut PgConnection, scope: Scope, limit: i64) -> Result<Vec<(RecurringInvoiceId, Timestamp)>> {
    if !scope.hold(tx).await? {
        return Ok(Vec::new());
    }
    match scope {
        Scope::AllAccounts(at) => {
            let locked = sqlx::query_scalar!(
                "SELECT id FROM recurring_invoices WHERE next_run_at <= $1 AND hold_clock(account_id)
                 ORDER BY next_run_at LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED",
                at,
                limit,
            );
            let locked = column(&locked.fetch_all(&mut *tx).await?, |id| id.uuid());
            // A later statement, because no clock is advanced from here on.
            let query = sqlx::query!(
                r#"SELECT id, account_id, next_run_at, account_now(account_id, $2) AS "now!" FROM recurring_invoices
                   WHERE id = ANY ($1)"#,
                &locked,
                at,
            );
            let mut due = query.fetch_all(tx).await?;
            due.sort_by_key(|row| (row.account_id, row.next_run_at));
            Ok(due.into_iter().map(|row| (row.id, row.now)).collect())
        }
        Scope::Account(account, at) | Scope::Advance(account, at) => {
            let query = sqlx::query_scalar!(
                r#"WITH due AS MATERIALIZED (
                       SELECT id FROM recurring_invoices WHERE next_run_at IS NOT NULL
                         AND (account_id, next_run_at) >= ($1, '-infinity') AND (account_id, next_run_at) <= ($1, $2)
                       ORDER BY account_id, next_run_at LIMIT $3)
                   SELECT locked.id AS "id!: RecurringInvoiceId"
                   FROM unnest(ARRAY(SELECT id FROM due ORDER BY id)) AS n (id)
                   CROSS JOIN LATERAL (SELECT r.id FROM recurring_invoices r
                       WHERE r.id = n.id AND r.next_run_at <= $2 FOR NO KEY UPDATE) locked"#,
                account.uuid(),
                at,
                limit,
            );
            Ok(query.fetch_all(tx).await?.into_iter().map(|id| (id, at)).collect())
        }
    }
}

/// Returns recurring invoices that exist, of any account, in this order.
///
/// # Errors
/// Database errors; [`Error::Internal`] for one whose cadence is malformed.
pub async fn find_all(tx: &mut PgConnection, ids: &[RecurringInvoiceId]) -> Result<Vec<RecurringInvoice>> {
    let query = select_recurring_invoices!("WHERE r.id = ANY ($1)", &column(ids, |id| id.uuid()));
    let mut rows: HashMap<_, _> = query.fetch_all(tx).await?.into_iter().map(|row| (row.id, row)).collect();
    ids.iter().filter_map(|id| rows.remove(id)).map(Row::parse).collect()
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

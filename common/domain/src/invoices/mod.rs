//! Invoices, from the draft to the payment. Issuing an invoice assigns its number and its due date.

pub mod attempts;
mod collection;
mod create;
mod due;
mod invoice;
mod items;
mod list;
mod numbering;
mod status;
mod subscription;
mod view;

use std::collections::HashMap;

use sqlx::{PgConnection, PgExecutor, PgPool};

pub use attempts::{AttemptStatus, AttemptView};
pub use collection::{Failure, FailureContext, Next, RETRY_AFTER_DAYS};
pub use create::{CreatedAs, create};
pub use due::{next_due, oldest_due_seconds, retry_waiting_for_card};
pub use invoice::{Due, Invoice, NewInvoice, Producer};
pub use items::{Bill, Item, Items, MAX_ROWS};
pub use list::{Filter, list};
pub use numbering::Number;
pub use status::Status;
pub use subscription::{has_failed_invoice, scheduled_of_subscription};
pub use view::InvoiceView;

use crate::accounts::{self, Mode};
use crate::events::{self, EventType};
use crate::merchant_data::change_merchant_data;
use foundation::calendar::Date;
use foundation::db::{self, Db, Reader, Tx, column};
use foundation::error::{Error, Result};
use foundation::id::{AccountId, InvoiceId, PaymentId, PaymentMethodId, RecurringInvoiceId};
use foundation::merchant_data::MerchantDataChange;
use foundation::time::Timestamp;
use numbering::next_numbers;

/// Selects every column of an invoice; all queries share this list.
macro_rules! select_invoices {
    ($rest:literal, $($arg:expr),* $(,)?) => {
        sqlx::query_as!(
            Invoice,
            "SELECT i.id, i.account_id, a.mode, i.customer_id, i.status, i.number, i.currency, i.amount, i.amount_tax,
                    i.amount_discount, i.amount_paid, i.description, i.items, i.payment_terms, i.due_at, i.issued_at,
                    i.collect_at, i.collect_payment_method_id, i.next_attempt_at, i.attempt_count,
                    i.series_started_at, i.series_failures, i.collection_exhausted, i.paid_at, i.payment_id, i.voided_at, i.recurring_invoice_id,
                    i.subscription_id, i.billing_period, i.page_token, i.metadata, i.external_id, i.version, i.created_at,
                    coalesce((SELECT p.amount_refunded FROM payments p
                              WHERE p.account_id = i.account_id AND p.id = i.payment_id), 0) AS \"amount_refunded!\"
             FROM invoices i JOIN accounts a ON a.id = i.account_id " + $rest,
            $($arg),*
        )
    };
}

use select_invoices;

/// Issues a draft.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Conflict`] if the invoice is not a draft.
pub async fn issue_draft(db: &Db, account: AccountId, id: InvoiceId, now: Timestamp) -> Result<Invoice> {
    let mut tx = db.begin().await?;
    let mut invoice = lock(&mut tx, account, id).await?;
    if invoice.status != Status::Draft {
        return Err(Error::conflict(format!("an invoice that is {} cannot be issued", invoice.status.name())));
    }
    if let Some(terms) = invoice.due_by_terms() {
        invoice.due_at = Some(terms.due(now, &accounts::timezone(&mut *tx, account).await?));
    }
    let number = next_numbers(&mut tx, &[account]).await?.pop();
    invoice.issue(number, now);
    save(&mut tx, &mut invoice).await?;
    announce(&mut tx, &invoice, EventType::InvoiceIssued, now).await?;
    tx.commit().await?;
    Ok(invoice)
}

/// Stores the mutable columns of an invoice.
pub(super) async fn save(tx: &mut PgConnection, invoice: &mut Invoice) -> Result<()> {
    invoice.version = sqlx::query_scalar!(
        "UPDATE invoices SET status = $3, number = $4, due_at = $5, issued_at = $6, collect_at = $7,
                collect_payment_method_id = $8, next_attempt_at = $9, attempt_count = $10, collection_exhausted = $11,
                amount_paid = $12, paid_at = $13, payment_id = $14, voided_at = $15, series_started_at = $16,
                series_failures = $17
         WHERE account_id = $1 AND id = $2 RETURNING version",
        invoice.account_id.uuid(),
        invoice.id.uuid(),
        invoice.status as Status,
        invoice.number as Option<Number>,
        invoice.due_at,
        invoice.issued_at,
        invoice.collect_at,
        invoice.collect_payment_method_id.map(PaymentMethodId::uuid),
        invoice.next_attempt_at,
        invoice.attempt_count,
        invoice.collection_exhausted,
        invoice.amount_paid,
        invoice.paid_at,
        invoice.payment_id.map(PaymentId::uuid),
        invoice.voided_at,
        invoice.series_started_at,
        invoice.series_failures,
    )
    .fetch_one(tx)
    .await?;
    Ok(())
}

/// Schedules the collection of a locked invoice. Charges `card`, or the card that is the customer's default at the time
/// of each attempt.
///
/// # Errors
/// [`Error::Conflict`] if the invoice is not open; a database error if the card belongs to another customer.
pub async fn schedule(
    tx: &mut Tx,
    invoice: &mut Invoice,
    collect_at: Timestamp,
    card: Option<PaymentMethodId>,
    now: Timestamp,
) -> Result<()> {
    if invoice.status != Status::Open {
        return Err(Error::conflict(format!("an invoice that is {} cannot be scheduled", invoice.status.name())));
    }
    invoice.schedule(collect_at, card);
    save(tx, invoice).await?;
    announce(tx, invoice, EventType::InvoiceScheduled, now).await
}

/// Takes a locked, scheduled invoice out of collection and makes it open. No attempt may be in flight, because its
/// outcome decides the status.
///
/// # Errors
/// [`Error::Conflict`] if the invoice is not scheduled.
pub async fn unschedule(tx: &mut Tx, invoice: &mut Invoice) -> Result<()> {
    if invoice.status != Status::Scheduled {
        return Err(Error::conflict(format!("an invoice that is {} is not scheduled", invoice.status.name())));
    }
    invoice.leave_collection();
    invoice.status = Status::Open;
    save(tx, invoice).await
}

/// Allows no retry of a locked invoice after its attempt in flight.
///
/// # Errors
/// Database errors only.
pub async fn stop_retries(tx: &mut PgConnection, invoice: &mut Invoice) -> Result<()> {
    invoice.stop_retries();
    save(tx, invoice).await
}

/// Records a failed attempt to collect a locked invoice and returns what follows.
///
/// # Errors
/// [`Error::Internal`] if the invoice is not being collected.
pub async fn attempt_failed(
    tx: &mut Tx,
    invoice: &mut Invoice,
    failure: Failure<'_>,
    context: FailureContext<'_>,
) -> Result<Next> {
    let next = invoice.attempt_failed(failure.kind, context)?;
    save(tx, invoice).await?;
    announce(tx, invoice, EventType::InvoicePaymentFailed, context.now).await?;
    if next == Next::Exhausted {
        announce(tx, invoice, EventType::InvoiceCollectionExhausted, context.now).await?;
    }
    Ok(next)
}

/// Records the payment that paid a locked invoice.
///
/// # Errors
/// [`Error::Internal`] if the invoice can no longer be paid, or `amount` is less than the amount due.
pub async fn pay(tx: &mut Tx, invoice: &mut Invoice, payment: PaymentId, amount: i64, now: Timestamp) -> Result<()> {
    invoice.pay(payment, amount, now)?;
    save(tx, invoice).await?;
    announce(tx, invoice, EventType::InvoicePaid, now).await
}

/// Voids a locked invoice and takes it out of collection. Its payment is not refunded.
///
/// # Errors
/// [`Error::Internal`] if it is already voided.
pub async fn void(tx: &mut Tx, invoice: &mut Invoice, now: Timestamp) -> Result<()> {
    if !invoice.status.may_become(Status::Voided) {
        return Err(Error::internal(format!("{} is {:?} and cannot be voided", invoice.id, invoice.status)));
    }
    invoice.leave_collection();
    invoice.status = Status::Voided;
    invoice.voided_at = Some(now);
    save(tx, invoice).await?;
    announce(tx, invoice, EventType::InvoiceVoided, now).await
}

async fn announce(tx: &mut Tx, invoice: &Invoice, kind: EventType, now: Timestamp) -> Result<()> {
    let livemode = invoice.mode == Mode::Live;
    events::append(tx, invoice.account_id, livemode, kind, &InvoiceView::new(invoice), now).await?;
    Ok(())
}

/// Returns an invoice.
///
/// # Errors
/// [`Error::NotFound`], also if it belongs to another account.
pub async fn retrieve(db: impl PgExecutor<'_>, account: AccountId, id: InvoiceId) -> Result<Invoice> {
    find(db, account, id).await?.ok_or_else(|| Error::no_such("invoice", id))
}

async fn find(db: impl PgExecutor<'_>, account: AccountId, id: InvoiceId) -> Result<Option<Invoice>> {
    let query = select_invoices!("WHERE i.account_id = $1 AND i.id = $2", account.uuid(), id.uuid());
    Ok(query.fetch_optional(db).await?)
}

/// Starts a reader of invoices. Must be called inside a Tokio runtime.
pub fn reader(pool: PgPool) -> Reader<InvoiceId, Invoice> {
    Reader::start("invoice", pool, |db, ids| Box::pin(find_all(db, ids)), |invoice| (invoice.account_id, invoice.id))
}

/// Returns those of the invoices that exist, of any account.
async fn find_all(db: &mut PgConnection, ids: &[InvoiceId]) -> sqlx::Result<Vec<Invoice>> {
    select_invoices!("WHERE i.id = ANY ($1)", &ids.iter().map(|id| id.uuid()).collect::<Vec<_>>(),).fetch_all(db).await
}

/// Locks an invoice. Lock order: the customer, then the invoice, then its payment.
///
/// # Errors
/// [`Error::NotFound`], also if it belongs to another account.
pub async fn lock(tx: &mut PgConnection, account: AccountId, id: InvoiceId) -> Result<Invoice> {
    let query =
        select_invoices!("WHERE i.account_id = $1 AND i.id = $2 FOR NO KEY UPDATE OF i", account.uuid(), id.uuid());
    query.fetch_optional(tx).await?.ok_or_else(|| Error::no_such("invoice", id))
}

/// Returns the last dates for which recurring invoices created an invoice. They must be locked, so that the result holds
/// until the commit. Every period starts with its date, so the text order of periods is their date order.
///
/// # Errors
/// Database errors; [`Error::Internal`] if a stored period is malformed.
pub async fn last_billed_dates(
    tx: &mut PgConnection,
    recurring: &[(AccountId, RecurringInvoiceId)],
) -> Result<HashMap<RecurringInvoiceId, Date>> {
    let query = sqlx::query!(
        r#"SELECT r.id AS "id!: RecurringInvoiceId", billed.billing_period AS "billing_period!"
           FROM unnest($1::uuid[], $2::uuid[]) AS r (account_id, id)
           CROSS JOIN LATERAL (SELECT i.billing_period FROM invoices i
               WHERE i.account_id = r.account_id AND i.recurring_invoice_id = r.id
               ORDER BY i.account_id DESC, i.recurring_invoice_id DESC, i.billing_period DESC LIMIT 1) billed"#,
        &column(recurring, |(account, _)| account.uuid()),
        &column(recurring, |(_, id)| id.uuid()),
    );
    let date = |id: RecurringInvoiceId, period: &str| -> Result<Date> {
        let date = period.get(..10).and_then(|date| date.parse().ok());
        date.ok_or_else(|| Error::internal(format!("malformed billing period {period:?} of {id}")))
    };
    query.fetch_all(tx).await?.into_iter().map(|row| Ok((row.id, date(row.id, &row.billing_period)?))).collect()
}

/// Locks an invoice unless another transaction has it locked. Requests of payers must not hold a connection while they
/// wait.
///
/// # Errors
/// Database errors only.
pub async fn try_lock(tx: &mut PgConnection, account: AccountId, id: InvoiceId) -> Result<Option<Invoice>> {
    let query = select_invoices!(
        "WHERE i.account_id = $1 AND i.id = $2 FOR NO KEY UPDATE OF i SKIP LOCKED",
        account.uuid(),
        id.uuid()
    );
    Ok(query.fetch_optional(tx).await?)
}

/// Returns the invoice of a payment page. Drafts have no page.
///
/// # Errors
/// [`Error::NotFound`].
pub async fn retrieve_by_page_token(db: &mut PgConnection, page_token: &str) -> Result<Invoice> {
    let query = select_invoices!("WHERE i.page_token = $1", page_token);
    let found = query.fetch_optional(db).await?;
    found.filter(|invoice| invoice.number.is_some()).ok_or_else(|| Error::no_such("invoice", ""))
}

/// Changes the merchant's own data. This has no event.
///
/// # Errors
/// [`Error::NotFound`]; 422 `metadata` if it becomes too large; [`Error::Conflict`] if another version was expected.
pub async fn update(db: &PgPool, account: AccountId, id: InvoiceId, change: MerchantDataChange) -> Result<Invoice> {
    let mut tx = db::begin(db).await?;
    change_merchant_data!(tx, "invoices", "invoice", account, id, change);
    let updated = retrieve(&mut *tx, account, id).await?;
    tx.commit().await?;
    Ok(updated)
}

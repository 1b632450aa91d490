//! Invoices, from the draft to the payment. Issuing an invoice assigns its number and its due date.

pub mod attempts;
mod collection;
mod items;
mod numbering;
mod status;
mod store;
mod subscription;
mod view;

use sqlx::{PgConnection, PgExecutor, PgPool};

pub use attempts::{AttemptStatus, AttemptView};
pub use collection::{Failure, FailureContext, Next, RETRY_AFTER_DAYS};
pub use items::{Bill, Item, Items, MAX_ROWS};
pub use numbering::Number;
pub use status::Status;
pub use subscription::{has_failed_invoice, unschedule_subscription};
pub use view::InvoiceView;

use crate::accounts::{self, Mode};
use crate::events::{self, EventType};
use foundation::calendar::{Date, PaymentTerms, Period};
use foundation::crypto::random_hex;
use foundation::db::{self, Db, Tx};
use foundation::error::{Error, Result};
use foundation::id::{
    AccountId, CustomerId, InvoiceId, PaymentId, PaymentMethodId, RecurringInvoiceId, SubscriptionId,
};
use foundation::money::Currency;
use foundation::page::{Page, PageRequest, unknown_cursor};
use foundation::proof::{self, Rule};
use foundation::time::Timestamp;

/// Random bytes of the token in the URL of a payment page.
const PAGE_TOKEN_BYTES: usize = 20;

/// An invoice as stored. Amounts are in minor units of its currency.
#[derive(Clone, Debug)]
pub struct Invoice {
    pub id: InvoiceId,
    pub account_id: AccountId,
    pub mode: Mode,
    pub customer_id: CustomerId,
    pub status: Status,
    /// Assigned when the invoice is issued.
    pub number: Option<Number>,
    /// The currency of all amounts.
    pub currency: Currency,
    /// The total owed.
    pub amount: i64,
    /// Tax included in `amount`, if the invoice has items.
    pub amount_tax: Option<i64>,
    /// Discount subtracted from `amount`, if the invoice has items.
    pub amount_discount: Option<i64>,
    pub amount_paid: i64,
    pub description: Option<String>,
    /// In the order sent.
    pub items: Items,
    /// The terms from which the due date is computed; `None` if the merchant set the date.
    pub payment_terms: Option<PaymentTerms>,
    /// A draft has a due date only if the merchant set it.
    pub due_at: Option<Timestamp>,
    pub issued_at: Option<Timestamp>,
    /// When to start collecting the invoice.
    pub collect_at: Option<Timestamp>,
    /// The card to charge; by default the customer's default card.
    pub collect_payment_method_id: Option<PaymentMethodId>,
    /// When the next collection attempt is due.
    pub next_attempt_at: Option<Timestamp>,
    /// Collection attempts so far.
    pub attempt_count: i32,
    /// The first attempt of the current series, from which retry days are counted.
    pub series_started_at: Option<Timestamp>,
    /// Failed attempts in the current series.
    pub series_failures: i32,
    /// Whether the last retry failed.
    pub collection_exhausted: bool,
    pub paid_at: Option<Timestamp>,
    /// The payment that paid the invoice.
    pub payment_id: Option<PaymentId>,
    pub voided_at: Option<Timestamp>,
    /// The recurring invoice that created this invoice.
    pub recurring_invoice_id: Option<RecurringInvoiceId>,
    /// The subscription that created this invoice.
    pub subscription_id: Option<SubscriptionId>,
    /// The cycle that the invoice bills.
    pub billing_period: Option<String>,
    /// The token in the URL of the payment page. Anyone who has it may pay.
    pub page_token: String,
    pub created_at: Timestamp,
}

impl Invoice {
    /// Counts retries from the next attempt.
    fn begin_series(&mut self) {
        self.series_started_at = None;
        self.series_failures = 0;
    }

    fn leave_collection(&mut self) {
        self.collect_at = None;
        self.collect_payment_method_id = None;
        self.next_attempt_at = None;
        self.begin_series();
    }
}

/// How the due date is determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// The merchant set the date.
    At(Timestamp),
    /// Computed from the time of issue.
    Terms(PaymentTerms),
}

/// The validated input for a new invoice.
#[derive(Debug)]
pub struct NewInvoice {
    pub customer_id: CustomerId,
    /// The currency of all amounts.
    pub currency: Currency,
    pub description: Option<String>,
    pub bill: Bill,
    pub due: Due,
    /// The producer and the cycle to bill; `None` if an API request creates the invoice.
    pub cycle: Option<(Producer, Period)>,
}

/// An object that creates invoices on a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Producer {
    RecurringInvoice(RecurringInvoiceId),
    Subscription(SubscriptionId),
}

impl NewInvoice {
    /// Builds the draft with a new id, without storing it.
    pub fn into_draft(self, account_id: AccountId, mode: Mode, now: Timestamp) -> Invoice {
        let (payment_terms, due_at) = match self.due {
            Due::At(at) => (None, Some(at)),
            Due::Terms(terms) => (Some(terms), None),
        };
        let (recurring_invoice_id, subscription_id) = match self.cycle {
            None => (None, None),
            Some((Producer::RecurringInvoice(id), _)) => (Some(id), None),
            Some((Producer::Subscription(id), _)) => (None, Some(id)),
        };
        Invoice {
            id: InvoiceId::new(now),
            account_id,
            mode,
            customer_id: self.customer_id,
            status: Status::Draft,
            number: None,
            currency: self.currency,
            amount: self.bill.amount(),
            amount_tax: self.bill.tax(),
            amount_discount: self.bill.discount(),
            amount_paid: 0,
            description: self.description,
            items: self.bill.items().clone(),
            payment_terms,
            due_at,
            issued_at: None,
            collect_at: None,
            collect_payment_method_id: None,
            next_attempt_at: None,
            attempt_count: 0,
            series_started_at: None,
            series_failures: 0,
            collection_exhausted: false,
            paid_at: None,
            payment_id: None,
            voided_at: None,
            recurring_invoice_id,
            subscription_id,
            billing_period: self.cycle.map(|(_, period)| period.to_string()),
            page_token: random_hex(PAGE_TOKEN_BYTES),
            created_at: now,
        }
    }
}

/// Issues a draft.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Conflict`] if the invoice is not a draft.
pub async fn issue_draft(db: &Db, account: AccountId, id: InvoiceId, now: Timestamp) -> Result<Invoice> {
    let mut tx = db.begin().await?;
    let mut invoice = lock(&mut tx, account, id).await?;
    issue(&mut tx, &mut invoice, now).await?;
    tx.commit().await?;
    Ok(invoice)
}

/// Builds and inserts a draft. The insert locks the rows it references, which keeps the lock order if the same
/// transaction then issues the invoice.
///
/// # Errors
/// [`Error::NotFound`] if the account has no such customer.
pub async fn draft(
    tx: &mut PgConnection,
    account: AccountId,
    mode: Mode,
    new: NewInvoice,
    now: Timestamp,
) -> Result<Invoice> {
    let invoice = new.into_draft(account, mode, now);
    insert(tx, &invoice).await?;
    Ok(invoice)
}

/// Inserts a draft built by [`NewInvoice::into_draft`].
///
/// # Errors
/// [`Error::NotFound`] if the account has no such customer.
pub async fn insert(tx: &mut PgConnection, draft: &Invoice) -> Result<()> {
    store::insert(tx, draft).await.map_err(|error| match db::violated_constraint(&error) {
        Some("invoices_customer") => Error::no_such("customer", draft.customer_id),
        _ => error.into(),
    })
}

/// Issues a draft that this transaction has locked or inserted: assigns its number and its due date. Locks the
/// account's invoice counter until the commit; in the lock order it comes after everything but webhook endpoints.
///
/// # Errors
/// [`Error::Conflict`] if the invoice is not a draft.
pub async fn issue(tx: &mut Tx, invoice: &mut Invoice, now: Timestamp) -> Result<()> {
    if invoice.status != Status::Draft {
        return Err(Error::conflict(format!("an invoice that is {} cannot be issued", invoice.status.name())));
    }
    if let (None, Some(terms)) = (invoice.due_at, invoice.payment_terms) {
        let zone = accounts::timezone(&mut **tx, invoice.account_id).await?;
        invoice.due_at = Some(terms.due(now, &zone));
    }
    invoice.status = Status::Open;
    invoice.issued_at = Some(now);
    invoice.number = Some(store::next_number(tx, invoice.account_id).await?);
    store::save(tx, invoice).await?;
    announce(tx, invoice, EventType::InvoiceIssued, now).await
}

/// Schedules the collection of an invoice that this transaction has locked or inserted. Charges `card`, or the card
/// that is the customer's default at the time of each attempt.
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
    invoice.status = Status::Scheduled;
    invoice.collect_at = Some(collect_at);
    invoice.collect_payment_method_id = card;
    invoice.next_attempt_at = Some(collect_at);
    invoice.begin_series();
    invoice.collection_exhausted = false;
    store::save(tx, invoice).await?;
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
    store::save(tx, invoice).await
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
    store::save(tx, invoice).await?;
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
    store::save(tx, invoice).await?;
    announce(tx, invoice, EventType::InvoicePaid, now).await
}

/// Makes invoices that wait for a new default card due immediately. The customer must be locked.
///
/// # Errors
/// Database errors only.
pub async fn retry_waiting_for_card(
    tx: &mut PgConnection,
    account: AccountId,
    customer: CustomerId,
    now: Timestamp,
) -> Result<()> {
    if !proof::holds(Rule::LockOrder) {
        store::lock_waiting_in_reverse(tx, account, customer).await?;
    }
    store::retry_waiting_for_card(tx, account, customer, now).await
}

/// Returns when the next collection attempt of an account is due. Invoices with a live payment do not count.
///
/// # Errors
/// Database errors only.
pub async fn next_due(db: &PgPool, account: AccountId) -> Result<Option<Timestamp>> {
    store::next_due(db, account).await
}

/// Returns for how many seconds the longest overdue collection attempt has been due; 0 if none is due.
///
/// # Errors
/// Database errors only.
pub async fn oldest_due_seconds(db: &PgPool, now: Timestamp) -> Result<f64> {
    store::oldest_due_seconds(db, now).await
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
    store::save(tx, invoice).await?;
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
    store::find(db, account, id).await?.ok_or_else(|| Error::no_such("invoice", id))
}

/// Locks an invoice. Lock order: the customer, then the invoice, then its payment.
///
/// # Errors
/// [`Error::NotFound`], also if it belongs to another account.
pub async fn lock(tx: &mut PgConnection, account: AccountId, id: InvoiceId) -> Result<Invoice> {
    store::lock(tx, account, id).await?.ok_or_else(|| Error::no_such("invoice", id))
}

/// Returns the last date for which a recurring invoice created an invoice. The recurring invoice must be locked, so
/// that the result holds until the commit.
///
/// # Errors
/// Database errors; [`Error::Internal`] if the stored period is malformed.
pub async fn last_billed_date(
    tx: &mut PgConnection,
    account: AccountId,
    recurring: RecurringInvoiceId,
) -> Result<Option<Date>> {
    let Some(period) = store::last_billing_period(tx, account, recurring).await? else { return Ok(None) };
    let date = period.get(..10).and_then(|date| date.parse().ok());
    date.map(Some).ok_or_else(|| Error::internal(format!("malformed billing period {period:?} of {recurring}")))
}

/// Locks an invoice unless another transaction has it locked. Requests of payers must not hold a connection while they
/// wait.
///
/// # Errors
/// Database errors only.
pub async fn try_lock(tx: &mut PgConnection, account: AccountId, id: InvoiceId) -> Result<Option<Invoice>> {
    store::try_lock(tx, account, id).await
}

/// Returns the invoice of a payment page. Drafts have no page.
///
/// # Errors
/// [`Error::NotFound`].
pub async fn retrieve_by_page_token(db: &mut PgConnection, page_token: &str) -> Result<Invoice> {
    let found = store::find_by_token(db, page_token).await?;
    found.filter(|invoice| invoice.number.is_some()).ok_or_else(|| Error::no_such("invoice", ""))
}

/// Returns a page of invoices, newest first.
///
/// # Errors
/// 422 if the cursor is not an invoice of the account.
pub async fn list(db: &PgPool, account: AccountId, page: PageRequest<InvoiceId>) -> Result<Page<Invoice>> {
    if let Some(cursor) = page.starting_after
        && store::find(db, account, cursor).await?.is_none()
    {
        return Err(unknown_cursor());
    }
    Ok(page.page(store::list(db, account, page.starting_after, page.fetch()).await?))
}

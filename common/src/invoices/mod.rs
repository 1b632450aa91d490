//! Invoices: what a customer owes, from the draft to the payment. The issue gives an invoice its number and its due date.

pub mod attempts;
mod collection;
mod items;
mod numbering;
mod status;
mod store;
mod subscribed;
mod view;

use sqlx::{PgConnection, PgExecutor, PgPool};

pub use attempts::{AttemptStatus, AttemptView};
pub use collection::{Circumstances, Failure, Next, RETRY_AFTER_DAYS};
pub use items::{Bill, Item, Items, MAX_ROWS};
pub use numbering::Number;
pub use status::Status;
pub use subscribed::{is_owed_after_failure, unschedule_all_of};
pub use view::InvoiceView;

use crate::accounts::{self, Mode};
use crate::calendar::{Date, PaymentTerms, Period};
use crate::crypto::random_hex;
use crate::db::{self, Db, Tx};
use crate::error::{Error, Result};
use crate::events::{self, EventType};
use crate::id::{AccountId, CustomerId, InvoiceId, PaymentId, PaymentMethodId, RecurringInvoiceId, SubscriptionId};
use crate::money::Currency;
use crate::page::{Page, PageRequest, unknown_cursor};
use crate::proof::{self, Rule};
use crate::time::Timestamp;

/// Random bytes of the token that the address of a payment page ends with.
const PAGE_TOKEN_BYTES: usize = 20;

/// An invoice as stored. Amounts are in minor units of its currency.
#[derive(Clone, Debug)]
pub struct Invoice {
    /// Its id.
    pub id: InvoiceId,
    /// Whose it is.
    pub account_id: AccountId,
    /// The account's mode.
    pub mode: Mode,
    /// Who owes it.
    pub customer_id: CustomerId,
    /// Where it stands.
    pub status: Status,
    /// Its number, once issued.
    pub number: Option<Number>,
    /// The currency of all its amounts.
    pub currency: Currency,
    /// What is owed in all.
    pub amount: i64,
    /// Tax within it, where it has items.
    pub amount_tax: Option<i64>,
    /// What was taken off, where it has items.
    pub amount_discount: Option<i64>,
    /// What was paid.
    pub amount_paid: i64,
    /// What it is for.
    pub description: Option<String>,
    /// What it adds up, in the order sent.
    pub items: Items,
    /// What the due date was reckoned from, or will be; none where the merchant has named the date.
    pub payment_terms: Option<PaymentTerms>,
    /// When it falls due. Of a draft only if the merchant has named the date.
    pub due_at: Option<Timestamp>,
    /// When it was issued.
    pub issued_at: Option<Timestamp>,
    /// When it is to be collected.
    pub collect_at: Option<Timestamp>,
    /// With which card, if not the customer's default one.
    pub collect_payment_method_id: Option<PaymentMethodId>,
    /// When the next attempt to collect it is due.
    pub next_attempt_at: Option<Timestamp>,
    /// Attempts to collect it so far.
    pub attempt_count: i32,
    /// When the first attempt of the present series was made: retries are counted from it.
    pub series_started_at: Option<Timestamp>,
    /// Attempts of the present series that have failed.
    pub series_failures: i32,
    /// Whether the last retry has failed.
    pub collection_exhausted: bool,
    /// When it was paid.
    pub paid_at: Option<Timestamp>,
    /// What paid it.
    pub payment_id: Option<PaymentId>,
    /// When it was voided.
    pub voided_at: Option<Timestamp>,
    /// What produced it, if a recurring invoice.
    pub recurring_invoice_id: Option<RecurringInvoiceId>,
    /// What produced it, if a subscription.
    pub subscription_id: Option<SubscriptionId>,
    /// The cycle that it is for.
    pub billing_period: Option<String>,
    /// What the address of its payment page ends with. Whoever knows it may pay.
    pub page_token: String,
    /// When it was made.
    pub created_at: Timestamp,
}

impl Invoice {
    /// Retries are counted anew from the next attempt on.
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

/// How it is known when an invoice falls due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// The merchant has named the date.
    At(Timestamp),
    /// So long after the issue.
    Terms(PaymentTerms),
}

/// An invoice to be made. Its fields have been checked.
#[derive(Debug)]
pub struct NewInvoice {
    /// Who is to owe it.
    pub customer_id: CustomerId,
    /// The currency of all its amounts.
    pub currency: Currency,
    /// What it is for.
    pub description: Option<String>,
    /// What is billed.
    pub bill: Bill,
    /// When it falls due.
    pub due: Due,
    /// What produces it, and for which of its cycles; none if a request does.
    pub cycle: Option<(Producer, Period)>,
}

/// What produces invoices by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Producer {
    /// A recurring invoice.
    RecurringInvoice(RecurringInvoiceId),
    /// A subscription.
    Subscription(SubscriptionId),
}

impl NewInvoice {
    /// The draft that it makes, under an id of its own; nothing is written yet.
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
/// [`Error::NotFound`]; [`Error::Conflict`] for what is no draft.
pub async fn issue_draft(db: &Db, account: AccountId, id: InvoiceId, now: Timestamp) -> Result<Invoice> {
    let mut tx = db.begin().await?;
    let mut invoice = lock(&mut tx, account, id).await?;
    issue(&mut tx, &mut invoice, now).await?;
    tx.commit().await?;
    Ok(invoice)
}

/// Writes a draft. It locks what it refers to, so that an issue in the same transaction comes after all locks but the last.
///
/// # Errors
/// [`Error::NotFound`] for an unknown customer.
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

/// Writes what [`NewInvoice::into_draft`] made.
///
/// # Errors
/// [`Error::NotFound`] for an unknown customer, another account's too.
pub async fn insert(tx: &mut PgConnection, draft: &Invoice) -> Result<()> {
    store::insert(tx, draft).await.map_err(|error| match db::violated(&error) {
        Some("invoices_customer") => Error::no_such("customer", draft.customer_id),
        _ => error.into(),
    })
}

/// Issues a draft that is locked, or was written by this transaction: it gets its number and its due date. The account's
/// counter is locked from here to the commit, and comes after every other lock but those on webhook endpoints.
///
/// # Errors
/// [`Error::Conflict`] for what is no draft.
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

/// Schedules an invoice that is locked, or was written by this transaction, for collection: with this card, or with the one
/// that is the customer's default when an attempt is made.
///
/// # Errors
/// [`Error::Conflict`] for one that is not open. The card is its customer's, or the database refuses.
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

/// Takes a scheduled invoice that is locked out of collection: it is open and no longer collects itself. No attempt may be
/// in flight, or its outcome decides.
///
/// # Errors
/// [`Error::Conflict`] for one that is not scheduled.
pub async fn unschedule(tx: &mut Tx, invoice: &mut Invoice) -> Result<()> {
    if invoice.status != Status::Scheduled {
        return Err(Error::conflict(format!("an invoice that is {} has no schedule", invoice.status.name())));
    }
    invoice.leave_collection();
    invoice.status = Status::Open;
    store::save(tx, invoice).await
}

/// Notes that an attempt to collect an invoice that is locked has failed, and answers what follows.
///
/// # Errors
/// As of the rule, `Invoice::attempt_failed`.
pub async fn attempt_failed(
    tx: &mut Tx,
    invoice: &mut Invoice,
    failure: Failure<'_>,
    world: Circumstances<'_>,
) -> Result<Next> {
    let next = invoice.attempt_failed(failure.kind, world)?;
    store::save(tx, invoice).await?;
    announce(tx, invoice, EventType::InvoicePaymentFailed, world.now).await?;
    if next == Next::Exhausted {
        announce(tx, invoice, EventType::InvoiceCollectionExhausted, world.now).await?;
    }
    Ok(next)
}

/// Notes what paid an invoice that is locked.
///
/// # Errors
/// As of the rule, `Invoice::pay`.
pub async fn pay(tx: &mut Tx, invoice: &mut Invoice, payment: PaymentId, amount: i64, now: Timestamp) -> Result<()> {
    invoice.pay(payment, amount, now)?;
    store::save(tx, invoice).await?;
    announce(tx, invoice, EventType::InvoicePaid, now).await
}

/// A customer who is locked has another default card: what waits for one is due at once.
///
/// # Errors
/// Only the database's.
pub async fn another_card(
    tx: &mut PgConnection,
    account: AccountId,
    customer: CustomerId,
    now: Timestamp,
) -> Result<()> {
    if !proof::holds(Rule::LockOrder) {
        store::lock_waiting_backwards(tx, account, customer).await?;
    }
    store::another_card(tx, account, customer, now).await
}

/// When the next attempt to collect an invoice of an account is due. What somebody is paying at this moment does not count.
///
/// # Errors
/// Only the database's.
pub async fn next_due(db: &PgPool, account: AccountId) -> Result<Option<Timestamp>> {
    store::next_due(db, account).await
}

/// Seconds for which the oldest invoice that is due has waited for its attempt.
///
/// # Errors
/// Only the database's.
pub async fn oldest_due_seconds(db: &PgPool, now: Timestamp) -> Result<f64> {
    store::oldest_due_seconds(db, now).await
}

/// Voids an invoice that is locked, and takes it out of collection. What was paid stays paid.
///
/// # Errors
/// [`Error::Internal`] if it is voided.
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

/// One invoice.
///
/// # Errors
/// [`Error::NotFound`], for another account's too.
pub async fn retrieve(db: impl PgExecutor<'_>, account: AccountId, id: InvoiceId) -> Result<Invoice> {
    store::find(db, account, id).await?.ok_or_else(|| Error::no_such("invoice", id))
}

/// Locks an invoice. It is locked after its customer and before its payment.
///
/// # Errors
/// [`Error::NotFound`], for another account's too.
pub async fn lock(tx: &mut PgConnection, account: AccountId, id: InvoiceId) -> Result<Invoice> {
    store::lock(tx, account, id).await?.ok_or_else(|| Error::no_such("invoice", id))
}

/// The last date for which a recurring invoice has produced an invoice. Asked while the recurring invoice is locked, it stays so
/// until the commit.
///
/// # Errors
/// Only the database's; [`Error::Internal`] for a period that is none.
pub async fn last_billed_date(
    tx: &mut PgConnection,
    account: AccountId,
    recurring: RecurringInvoiceId,
) -> Result<Option<Date>> {
    let Some(period) = store::last_billing_period(tx, account, recurring).await? else { return Ok(None) };
    let date = period.get(..10).and_then(|date| date.parse().ok());
    date.map(Some).ok_or_else(|| Error::internal(format!("the billing period {period:?} of {recurring}")))
}

/// Locks an invoice unless somebody else has it locked: strangers hold no connection to wait.
///
/// # Errors
/// Only the database's.
pub async fn try_lock(tx: &mut PgConnection, account: AccountId, id: InvoiceId) -> Result<Option<Invoice>> {
    store::try_lock(tx, account, id).await
}

/// The invoice whose payment page this is. A draft has none.
///
/// # Errors
/// [`Error::NotFound`].
pub async fn of_page(db: &mut PgConnection, page_token: &str) -> Result<Invoice> {
    let found = store::find_by_token(db, page_token).await?;
    found.filter(|invoice| invoice.number.is_some()).ok_or_else(|| Error::no_such("invoice", ""))
}

/// A page of invoices, newest first.
///
/// # Errors
/// 422 for a cursor that names no invoice of the account.
pub async fn list(db: &PgPool, account: AccountId, page: PageRequest<InvoiceId>) -> Result<Page<Invoice>> {
    if let Some(cursor) = page.starting_after
        && store::find(db, account, cursor).await?.is_none()
    {
        return Err(unknown_cursor());
    }
    Ok(page.page(store::list(db, account, page.starting_after, page.fetch()).await?))
}

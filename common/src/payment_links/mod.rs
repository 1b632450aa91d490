//! Payment links: an amount that whoever has the address may pay, once, until it expires.
//!
//! An open link has a date at which it is to expire, unless a payment for it is under way: then that payment's outcome comes
//! first. So what is being paid can neither expire nor be cancelled.
//! `now` is the time by the account's clock.

mod expiry;
mod status;
mod store;
mod view;

use std::time::Duration;

use sqlx::{PgConnection, PgPool};

pub use expiry::{EXPIRY_BATCH, next_due, oldest_due_seconds, run_due_payment_links};
pub use status::Status;
pub use view::PaymentLinkView;

use crate::accounts::{Caller, Mode};
use crate::crypto::random_hex;
use crate::db::{Db, Tx};
use crate::error::{Error, Result};
use crate::events::{self, EventType};
use crate::id::{AccountId, PaymentId, PaymentLinkId};
use crate::money::{Currency, Money};
use crate::page::{Page, PageRequest, unknown_cursor};
use crate::proof::{self, Rule};
use crate::time::Timestamp;

/// How long a link can be paid if its merchant says nothing else.
pub const LIFETIME: Duration = Duration::from_secs(30 * 24 * 3600);
/// Random bytes of the token that the address of a payment page ends with.
const PAGE_TOKEN_BYTES: usize = 20;

/// A link as it stands.
#[derive(Clone, Debug)]
pub struct PaymentLink {
    /// Its id.
    pub id: PaymentLinkId,
    /// Whose it is.
    pub account_id: AccountId,
    /// The account's mode.
    pub mode: Mode,
    /// Where it stands: one whose time is up has expired, whether that was noted yet or not.
    pub status: Status,
    /// Minor units of its currency.
    pub amount: i64,
    /// The currency.
    pub currency: Currency,
    /// What it is for.
    pub description: Option<String>,
    /// Until when it can be paid.
    pub expires_at: Timestamp,
    /// When it is to be marked as expired; none while a payment for it is under way, and of one that is not open.
    expiry_due_at: Option<Timestamp>,
    /// When it was paid.
    pub paid_at: Option<Timestamp>,
    /// What paid it.
    pub payment_id: Option<PaymentId>,
    /// When it was cancelled.
    pub cancelled_at: Option<Timestamp>,
    /// What the address of its payment page ends with. Whoever knows it may pay.
    pub page_token: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was read, by the account's clock.
    pub as_of: Timestamp,
}

impl PaymentLink {
    /// What is to be paid.
    pub fn money(&self) -> Money {
        Money { minor: self.amount, currency: self.currency }
    }

    /// Whether a payment for it is under way.
    pub fn is_being_paid(&self) -> bool {
        self.status == Status::Open && self.expiry_due_at.is_none()
    }

    fn step(&mut self, next: Status) -> Result<()> {
        if !self.status.may_become(next) {
            return Err(Error::internal(format!("{} is {:?} and cannot become {next:?}", self.id, self.status)));
        }
        self.status = next;
        self.expiry_due_at = None;
        Ok(())
    }
}

/// A link to be made. Its fields have been checked.
#[derive(Debug)]
pub struct NewPaymentLink {
    /// What is to be paid.
    pub money: Money,
    /// What it is for.
    pub description: Option<String>,
    /// Until when it can be paid; 30 days if nothing is said.
    pub expires_at: Option<Timestamp>,
}

impl NewPaymentLink {
    /// The link that it makes, under an id of its own; nothing is written yet.
    ///
    /// # Errors
    /// 422 `expiresAt` for a date that is not ahead.
    pub fn open(self, caller: &Caller, now: Timestamp) -> Result<PaymentLink> {
        let expires_at = self.expires_at.unwrap_or_else(|| now.plus(LIFETIME));
        if expires_at <= now {
            return Err(Error::invalid("expiresAt", "expiresAt must lie ahead"));
        }
        Ok(PaymentLink {
            id: PaymentLinkId::new(now),
            account_id: caller.account_id,
            mode: caller.mode,
            status: Status::Open,
            amount: self.money.minor,
            currency: self.money.currency,
            description: self.description,
            expires_at,
            expiry_due_at: Some(expires_at),
            paid_at: None,
            payment_id: None,
            cancelled_at: None,
            page_token: random_hex(PAGE_TOKEN_BYTES),
            created_at: now,
            as_of: now,
        })
    }
}

/// Writes a link that [`NewPaymentLink::open`] made.
///
/// # Errors
/// When the database refuses it.
pub async fn insert(db: &mut PgConnection, link: &PaymentLink) -> Result<()> {
    store::insert(db, link).await
}

/// Cancels a link: it can be paid no more. A cancelled one stays as it is.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Conflict`] for one that is paid or has expired, and while a payment for it is under way.
pub async fn cancel(db: &Db, account: AccountId, id: PaymentLinkId, now: Timestamp) -> Result<PaymentLink> {
    let mut tx = db.begin().await?;
    let mut link = lock(&mut tx, account, id, now).await?;
    match link.status {
        Status::Cancelled => return Ok(link),
        Status::Paid => return Err(Error::conflict("the link was paid; refund the payment instead")),
        Status::Expired => return Err(Error::conflict("the link has expired")),
        // Whoever begins a payment for a link locks it first, so none begins from here on.
        Status::Open if link.is_being_paid() => return Err(Error::conflict("a payment for the link is under way")),
        Status::Open => {}
    }
    link.step(Status::Cancelled)?;
    link.cancelled_at = Some(now);
    store::save(&mut tx, &link).await?;
    announce(&mut tx, &link, EventType::PaymentLinkCancelled, now).await?;
    tx.commit().await?;
    Ok(link)
}

/// Notes that a payment for a link that is locked is under way.
///
/// # Errors
/// [`Error::Internal`] if one is, or it is not open.
pub async fn payment_begins(tx: &mut PgConnection, link: &mut PaymentLink) -> Result<()> {
    if link.status != Status::Open || (link.is_being_paid() && proof::holds(Rule::Link)) {
        return Err(Error::internal(format!("{} is {} and no payment can begin", link.id, link.status.name())));
    }
    link.expiry_due_at = None;
    store::save(tx, link).await
}

/// Notes that the payment that was under way for a link that is locked has come to nothing: it may be paid, and may expire.
///
/// # Errors
/// [`Error::Internal`] if none was.
pub async fn payment_failed(tx: &mut PgConnection, link: &mut PaymentLink) -> Result<()> {
    is_being_paid(link)?;
    link.expiry_due_at = Some(link.expires_at);
    store::save(tx, link).await
}

/// Notes what paid a link that is locked.
///
/// # Errors
/// [`Error::Internal`] if no payment was under way.
pub async fn pay(tx: &mut Tx, link: &mut PaymentLink, payment: PaymentId, now: Timestamp) -> Result<()> {
    is_being_paid(link)?;
    link.step(Status::Paid)?;
    link.paid_at = Some(now);
    link.payment_id = Some(payment);
    store::save(tx, link).await?;
    announce(tx, link, EventType::PaymentLinkPaid, now).await
}

fn is_being_paid(link: &PaymentLink) -> Result<()> {
    if link.is_being_paid() {
        return Ok(());
    }
    Err(Error::internal(format!("{} is {} and no payment for it is under way", link.id, link.status.name())))
}

async fn announce(tx: &mut Tx, link: &PaymentLink, kind: EventType, now: Timestamp) -> Result<()> {
    let livemode = link.mode == Mode::Live;
    events::append(tx, link.account_id, livemode, kind, &PaymentLinkView::new(link), now).await?;
    Ok(())
}

/// One link.
///
/// # Errors
/// [`Error::NotFound`], for another account's too.
pub async fn retrieve(db: &PgPool, account: AccountId, id: PaymentLinkId, now: Timestamp) -> Result<PaymentLink> {
    store::find(db, account, id, now).await?.ok_or_else(|| Error::no_such("payment link", id))
}

/// The link whose payment page this is; `at` is everyone's time.
///
/// # Errors
/// [`Error::NotFound`].
pub async fn of_page(db: &mut PgConnection, page_token: &str, at: Timestamp) -> Result<PaymentLink> {
    store::find_by_token(db, page_token, at).await?.ok_or_else(|| Error::no_such("payment link", ""))
}

/// Locks a link. It is locked before its payment.
///
/// # Errors
/// [`Error::NotFound`], for another account's too.
pub async fn lock(tx: &mut PgConnection, account: AccountId, id: PaymentLinkId, at: Timestamp) -> Result<PaymentLink> {
    store::lock(tx, account, id, at).await?.ok_or_else(|| Error::no_such("payment link", id))
}

/// Locks a link unless somebody else has it locked: strangers hold no connection to wait.
///
/// # Errors
/// Only the database's.
pub async fn try_lock(
    tx: &mut PgConnection,
    account: AccountId,
    id: PaymentLinkId,
    now: Timestamp,
) -> Result<Option<PaymentLink>> {
    store::try_lock(tx, account, id, now).await
}

/// A page of links, newest first.
///
/// # Errors
/// 422 for a cursor that names no link of the account.
pub async fn list(
    db: &PgPool,
    account: AccountId,
    page: PageRequest<PaymentLinkId>,
    now: Timestamp,
) -> Result<Page<PaymentLink>> {
    if let Some(cursor) = page.starting_after
        && store::find(db, account, cursor, now).await?.is_none()
    {
        return Err(unknown_cursor());
    }
    Ok(page.page(store::list(db, account, page.starting_after, page.fetch(), now).await?))
}

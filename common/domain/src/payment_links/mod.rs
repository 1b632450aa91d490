//! Payment links: an amount that anyone with the link's URL may pay, once, until the link expires.
//!
//! While a payment is pending, the link can neither expire nor be cancelled: the payment's outcome decides first. So
//! `expiry_due_at` is set only on open links without a pending payment.
//!
//! `now` is the time by the account's clock.

mod expiry;
mod list;
mod status;
mod view;

use std::time::Duration;

use sqlx::{PgConnection, PgExecutor, PgPool};

pub use expiry::{EXPIRY_BATCH, next_due, oldest_due_seconds, run_due_payment_links};
pub use list::{Filter, list};
pub use status::Status;
pub use view::PaymentLinkView;

use crate::accounts::{Caller, Mode};
use crate::events::{self, EventType};
use crate::merchant_data::change_merchant_data;
use foundation::crypto::random_hex;
use foundation::db::{self, Db, Tx};
use foundation::error::{Error, Result};
use foundation::id::{AccountId, PaymentId, PaymentLinkId};
use foundation::merchant_data::{ExternalId, MerchantData, MerchantDataChange, Metadata};
use foundation::money::{Currency, Money};
use foundation::rule_enabled;
use foundation::time::Timestamp;

/// The lifetime of a link that is created without `expiresAt`.
pub const DEFAULT_LIFETIME: Duration = Duration::from_secs(30 * 24 * 3600);
/// Random bytes of the token in the URL of a payment page.
const PAGE_TOKEN_BYTES: usize = 20;

/// A link as of [`Self::as_of`].
#[derive(Clone, Debug)]
pub struct PaymentLink {
    pub id: PaymentLinkId,
    pub account_id: AccountId,
    pub mode: Mode,
    /// `Expired` as soon as the link is overdue, even if that is not stored yet.
    pub status: Status,
    /// In minor units of the currency.
    pub amount: i64,
    pub currency: Currency,
    pub description: Option<String>,
    pub expires_at: Timestamp,
    /// When to mark the link as expired; `None` while a payment is pending and once the link is not open.
    expiry_due_at: Option<Timestamp>,
    pub paid_at: Option<Timestamp>,
    /// The payment that paid the link.
    pub payment_id: Option<PaymentId>,
    pub cancelled_at: Option<Timestamp>,
    /// The token in the URL of the payment page. Anyone who has it may pay.
    pub page_token: String,
    pub metadata: Option<Metadata>,
    pub external_id: Option<ExternalId>,
    /// Rises with each change that the API shows, also when the link is overdue.
    pub version: i64,
    pub created_at: Timestamp,
    /// When the link was read, by the account's clock.
    pub as_of: Timestamp,
}

impl PaymentLink {
    pub fn money(&self) -> Money {
        Money { minor: self.amount, currency: self.currency }
    }

    /// Whether a payment for the link is pending.
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

/// The validated input for a new link.
#[derive(Debug)]
pub struct NewPaymentLink {
    pub money: Money,
    pub description: Option<String>,
    /// By default [`DEFAULT_LIFETIME`] from now.
    pub expires_at: Option<Timestamp>,
    pub merchant_data: MerchantData,
}

impl NewPaymentLink {
    /// Builds an open link with a new id, without storing it.
    ///
    /// # Errors
    /// 422 `expiresAt` if it is not in the future.
    pub fn open(self, caller: &Caller, now: Timestamp) -> Result<PaymentLink> {
        let expires_at = self.expires_at.unwrap_or_else(|| now.plus(DEFAULT_LIFETIME));
        if expires_at <= now {
            return Err(Error::invalid("expiresAt", "expiresAt must be in the future"));
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
            metadata: self.merchant_data.metadata,
            external_id: self.merchant_data.external_id,
            version: 1,
            created_at: now,
            as_of: now,
        })
    }
}

/// Selects every column of a link; all queries share this list. The first argument is the SQL for the account's time:
/// `$1` itself, or `account_now` of it if `$1` is the real time.
macro_rules! select_links {
    ($now:literal, $rest:literal, $($arg:expr),* $(,)?) => {
        sqlx::query_as!(
            PaymentLink,
            r#"SELECT l.id, l.account_id, a.mode,
                      CASE WHEN l.expiry_due_at <= "# + $now + r#" THEN 'expired' ELSE l.status END AS "status!: Status",
                      l.amount, l.currency, l.description, l.expires_at, l.expiry_due_at, l.paid_at, l.payment_id,
                      l.cancelled_at, l.page_token, l.metadata, l.external_id,
                      l.version + CASE WHEN l.expiry_due_at <= "# + $now + r#" THEN 1 ELSE 0 END AS "version!",
                      l.created_at, "# + $now + r#" AS "as_of!: Timestamp"
               FROM payment_links l JOIN accounts a ON a.id = l.account_id "# + $rest,
            $($arg),*
        )
    };
}

use select_links;

/// Inserts a link built by [`NewPaymentLink::open`].
///
/// # Errors
/// Database errors only.
pub async fn insert(db: &mut PgConnection, link: &PaymentLink) -> Result<()> {
    sqlx::query!(
        "INSERT INTO payment_links (id, account_id, amount, currency, description, expires_at, expiry_due_at, page_token,
                created_at, metadata, external_id)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
        link.id.uuid(),
        link.account_id.uuid(),
        link.amount,
        link.currency.code(),
        link.description,
        link.expires_at,
        link.expiry_due_at,
        link.page_token,
        link.created_at,
        link.metadata.as_ref() as Option<&Metadata>,
        link.external_id.as_deref(),
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Stores the mutable columns of a link.
async fn save(tx: &mut PgConnection, link: &mut PaymentLink) -> Result<()> {
    link.version = sqlx::query_scalar!(
        "UPDATE payment_links SET status = $3, expiry_due_at = $4, paid_at = $5, payment_id = $6, cancelled_at = $7
         WHERE account_id = $1 AND id = $2 RETURNING version",
        link.account_id.uuid(),
        link.id.uuid(),
        link.status as Status,
        link.expiry_due_at,
        link.paid_at,
        link.payment_id.map(PaymentId::uuid),
        link.cancelled_at,
    )
    .fetch_one(tx)
    .await?;
    Ok(())
}

/// Cancels a link, so that it can no longer be paid. Does nothing if it is already cancelled.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Conflict`] if the link is paid or expired, or a payment for it is pending.
pub async fn cancel(db: &Db, account: AccountId, id: PaymentLinkId, now: Timestamp) -> Result<PaymentLink> {
    let mut tx = db.begin().await?;
    let mut link = lock(&mut tx, account, id, now).await?;
    match link.status {
        Status::Cancelled => return Ok(link),
        Status::Paid => return Err(Error::conflict("the link was paid; refund the payment instead")),
        Status::Expired => return Err(Error::conflict("the link has expired")),
        // Starting a payment requires the link's lock, so no payment can start from here on.
        Status::Open if link.is_being_paid() => return Err(Error::conflict("a payment for the link is pending")),
        Status::Open => {}
    }
    link.step(Status::Cancelled)?;
    link.cancelled_at = Some(now);
    save(&mut tx, &mut link).await?;
    announce(&mut tx, &link, EventType::PaymentLinkCancelled, now).await?;
    tx.commit().await?;
    Ok(link)
}

/// Records that a payment for a locked link is pending.
///
/// # Errors
/// [`Error::Internal`] if the link is not open or another payment is pending.
pub async fn begin_payment(tx: &mut PgConnection, link: &mut PaymentLink) -> Result<()> {
    if link.status != Status::Open || (link.is_being_paid() && rule_enabled!(Link)) {
        return Err(Error::internal(format!("{} is {} and cannot start a payment", link.id, link.status.name())));
    }
    link.expiry_due_at = None;
    save(tx, link).await
}

/// Records that the pending payment for a locked link failed: the link may be paid again, and may expire.
///
/// # Errors
/// [`Error::Internal`] if no payment is pending.
pub async fn payment_failed(tx: &mut PgConnection, link: &mut PaymentLink) -> Result<()> {
    check_being_paid(link)?;
    link.expiry_due_at = Some(link.expires_at);
    save(tx, link).await
}

/// Records the payment that paid a locked link.
///
/// # Errors
/// [`Error::Internal`] if no payment is pending.
pub async fn pay(tx: &mut Tx, link: &mut PaymentLink, payment: PaymentId, now: Timestamp) -> Result<()> {
    check_being_paid(link)?;
    link.step(Status::Paid)?;
    link.paid_at = Some(now);
    link.payment_id = Some(payment);
    save(tx, link).await?;
    announce(tx, link, EventType::PaymentLinkPaid, now).await
}

fn check_being_paid(link: &PaymentLink) -> Result<()> {
    if link.is_being_paid() {
        return Ok(());
    }
    Err(Error::internal(format!("{} is {} and has no pending payment", link.id, link.status.name())))
}

async fn announce(tx: &mut Tx, link: &PaymentLink, kind: EventType, now: Timestamp) -> Result<()> {
    let livemode = link.mode == Mode::Live;
    events::append(tx, link.account_id, livemode, kind, &PaymentLinkView::new(link), now).await?;
    Ok(())
}

/// Returns a link.
///
/// # Errors
/// [`Error::NotFound`], also if it belongs to another account.
pub async fn retrieve(
    db: impl PgExecutor<'_>,
    account: AccountId,
    id: PaymentLinkId,
    now: Timestamp,
) -> Result<PaymentLink> {
    find(db, account, id, now).await?.ok_or_else(|| Error::no_such("payment link", id))
}

async fn find(
    db: impl PgExecutor<'_>,
    account: AccountId,
    id: PaymentLinkId,
    now: Timestamp,
) -> Result<Option<PaymentLink>> {
    let query =
        select_links!("$1::timestamptz", "WHERE l.account_id = $2 AND l.id = $3", now, account.uuid(), id.uuid(),);
    Ok(query.fetch_optional(db).await?)
}

/// Returns the link of a payment page; `at` is the real time.
///
/// # Errors
/// [`Error::NotFound`].
pub async fn retrieve_by_page_token(db: &mut PgConnection, page_token: &str, at: Timestamp) -> Result<PaymentLink> {
    let query = select_links!("account_now(l.account_id, $1)", "WHERE l.page_token = $2", at, page_token);
    query.fetch_optional(db).await?.ok_or_else(|| Error::no_such("payment link", ""))
}

/// Locks a link. Lock order: the link, then its payment.
///
/// # Errors
/// [`Error::NotFound`], also if it belongs to another account.
pub async fn lock(tx: &mut PgConnection, account: AccountId, id: PaymentLinkId, at: Timestamp) -> Result<PaymentLink> {
    let query = select_links!(
        "$1::timestamptz",
        "WHERE l.account_id = $2 AND l.id = $3 FOR NO KEY UPDATE OF l",
        at,
        account.uuid(),
        id.uuid(),
    );
    query.fetch_optional(tx).await?.ok_or_else(|| Error::no_such("payment link", id))
}

/// Locks a link unless another transaction has it locked. Requests of payers must not hold a connection while they
/// wait.
///
/// # Errors
/// Database errors only.
pub async fn try_lock(
    tx: &mut PgConnection,
    account: AccountId,
    id: PaymentLinkId,
    now: Timestamp,
) -> Result<Option<PaymentLink>> {
    let query = select_links!(
        "$1::timestamptz",
        "WHERE l.account_id = $2 AND l.id = $3 FOR NO KEY UPDATE OF l SKIP LOCKED",
        now,
        account.uuid(),
        id.uuid(),
    );
    Ok(query.fetch_optional(tx).await?)
}

/// Locks overdue links of all accounts whose clock is not being advanced.
async fn lock_due(tx: &mut PgConnection, at: Timestamp, limit: i64) -> Result<Vec<PaymentLink>> {
    let query = select_links!(
        "account_now(l.account_id, $1)",
        "WHERE l.expiry_due_at <= $1 AND hold_clock(l.account_id)
         ORDER BY l.expiry_due_at LIMIT $2 FOR NO KEY UPDATE OF l SKIP LOCKED",
        at,
        limit,
    );
    Ok(query.fetch_all(tx).await?)
}

/// Locks overdue links of one account, by its own clock. The row comparisons match the per-account index and keep the
/// planner from choosing the index over all accounts, in which the account's rows are scattered.
async fn lock_due_of_account(
    tx: &mut PgConnection,
    account: AccountId,
    now: Timestamp,
    limit: i64,
) -> Result<Vec<PaymentLink>> {
    let query = select_links!(
        "$1::timestamptz",
        "WHERE l.expiry_due_at IS NOT NULL AND (l.account_id, l.expiry_due_at) >= ($2, '-infinity')
           AND (l.account_id, l.expiry_due_at) <= ($2, $1)
         ORDER BY l.account_id, l.expiry_due_at LIMIT $3 FOR NO KEY UPDATE OF l SKIP LOCKED",
        now,
        account.uuid(),
        limit,
    );
    Ok(query.fetch_all(tx).await?)
}

/// Changes the merchant's own data. This has no event.
///
/// # Errors
/// [`Error::NotFound`]; 422 `metadata` if it becomes too large; [`Error::Conflict`] if another version was expected.
pub async fn update(
    db: &PgPool,
    account: AccountId,
    id: PaymentLinkId,
    change: MerchantDataChange,
    now: Timestamp,
) -> Result<PaymentLink> {
    let mut tx = db::begin(db).await?;
    change_merchant_data!(tx, "payment_links", "payment link", account, id, change);
    let updated = retrieve(&mut *tx, account, id, now).await?;
    tx.commit().await?;
    Ok(updated)
}

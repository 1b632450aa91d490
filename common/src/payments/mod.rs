//! Payments: what was asked, what was approved, taken and given back, and where each stands.

pub mod idempotency;
mod inquiries;
mod intent;
pub mod refunds;
mod rules;
mod status;
mod store;
mod view;

use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

pub use inquiries::{
    Awaited, INQUIRY_BATCH, Inquiry, due_inquiries, inquiry, next_inquiry, postpone_inquiries, take_due_inquiries,
};
pub use intent::NewPayment;
pub use refunds::{Refund, RefundStatus, RefundView};
pub use status::Status;
pub use view::PaymentView;

use crate::accounts::Mode;
use crate::db;
use crate::error::{Error, Result};
use crate::id::{AccountId, CustomerId, InvoiceId, PaymentId, PaymentLinkId, PaymentMethodId, ProviderAccountId};
use crate::money::Currency;
use crate::operations::Kind;
use crate::page::{Page, PageRequest, unknown_cursor};
use crate::proof::{self, Rule};
use crate::providers::{Card, Decline, DeclineType, FailureCode, ProviderKind};
use crate::time::Timestamp;

/// A payment as stored. Amounts are in minor units of its currency.
#[derive(Clone, Debug)]
pub struct Payment {
    /// Its id.
    pub id: PaymentId,
    /// Whose it is.
    pub account_id: AccountId,
    /// The account's mode.
    pub mode: Mode,
    /// Where it was charged.
    pub provider_account_id: ProviderAccountId,
    /// Who pays, if known.
    pub customer_id: Option<CustomerId>,
    /// With which saved card, if any.
    pub payment_method_id: Option<PaymentMethodId>,
    /// What for, if an invoice.
    pub invoice_id: Option<InvoiceId>,
    /// What for, if a link.
    pub payment_link_id: Option<PaymentLinkId>,
    /// Where it stands.
    pub status: Status,
    /// Whether the money has arrived; stays true through refunds.
    pub settled: bool,
    /// Whether it was to be captured at once.
    pub capture: bool,
    /// The currency of all its amounts.
    pub currency: Currency,
    /// What was asked for.
    pub amount_requested: i64,
    /// What was authorized.
    pub amount: i64,
    /// What was taken.
    pub amount_captured: i64,
    /// What went back.
    pub amount_refunded: i64,
    /// What is reserved by refunds on their way.
    pub amount_refund_pending: i64,
    /// The parts it was composed of, if it was.
    pub amount_base: Option<i64>,
    /// Surcharge among them.
    pub amount_surcharge: Option<i64>,
    /// Tax among them.
    pub amount_tax: Option<i64>,
    /// Tip among them.
    pub amount_tip: Option<i64>,
    /// `visa`, …
    pub card_brand: Option<String>,
    /// The last four digits.
    pub card_last4: Option<String>,
    /// 1 to 12.
    pub card_exp_month: Option<i16>,
    /// Four digits.
    pub card_exp_year: Option<i16>,
    /// Why it was declined.
    pub decline_code: Option<String>,
    /// Soft or hard.
    pub decline_type: Option<DeclineType>,
    /// The provider's name for the charge.
    pub provider_ref: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When money was first taken.
    pub captured_at: Option<Timestamp>,
    /// When the provider is asked next how the charge stands.
    pub inquiry_at: Option<Timestamp>,
    /// The change whose outcome is awaited, or unknown.
    pub pending_operation: Option<Kind>,
    /// Whether there is anything to look for among the refunds.
    pub has_refunds: bool,
    /// What our own address ends with at which the cardholder goes on, once there was a challenge.
    pub action_token: Option<String>,
    /// The provider's address of that challenge.
    pub challenge_url: Option<String>,
    /// Why it failed, or why its last capture or void did.
    pub failure_code: Option<FailureCode>,
}

impl Payment {
    /// What it pays of what it is for, once approved: what was added on a payment page pays nothing of that.
    pub fn pays(&self) -> i64 {
        self.amount_base.unwrap_or(self.amount)
    }

    /// The provider approved the charge.
    ///
    /// # Errors
    /// [`Error::Internal`] if this payment cannot be approved any more.
    pub fn approve(
        &mut self,
        provider_ref: &str,
        amount: i64,
        card: Option<&Card>,
        provider: ProviderKind,
        now: Timestamp,
    ) -> Result<()> {
        self.step(Status::of_approval(self.amount_requested, amount, self.capture))?;
        self.provider_ref = Some(provider_ref.to_owned());
        self.amount = amount;
        if let Some(card) = card {
            self.show(card);
        }
        if self.capture {
            self.took(amount, provider, now);
        } else {
            self.inquiry_at = Some(now.plus(provider.authorization_lifetime()));
        }
        Ok(())
    }

    fn took(&mut self, amount: i64, provider: ProviderKind, now: Timestamp) {
        self.amount_captured = amount;
        self.captured_at = Some(now);
        self.inquiry_at = Some(now.plus(provider.settles_after()));
    }

    /// Authorized money was taken.
    ///
    /// # Errors
    /// [`Error::Internal`] if there was none to take.
    pub fn captured(&mut self, amount: i64, provider: ProviderKind, now: Timestamp) -> Result<()> {
        self.step(Status::PendingSettlement)?;
        self.pending_operation = None;
        self.failure_code = None;
        self.took(amount, provider, now);
        Ok(())
    }

    /// The charge was cancelled before it settled.
    ///
    /// # Errors
    /// [`Error::Internal`] if it was too late for that.
    pub fn voided(&mut self) -> Result<()> {
        self.step(Status::Cancelled)?;
        self.pending_operation = None;
        self.failure_code = None;
        self.inquiry_at = None;
        Ok(())
    }

    /// A reserved amount went back to the card.
    ///
    /// # Errors
    /// [`Error::Internal`] if it was not reserved.
    pub fn refunded(&mut self, amount: i64) -> Result<()> {
        self.release(amount)?;
        self.amount_refunded += amount;
        let all = self.amount_refunded == self.amount_captured;
        let next = if all { Status::Refunded } else { Status::PartiallyRefunded };
        if all && self.settled {
            // Nothing more becomes of it.
            self.inquiry_at = None;
        }
        if self.status == next { Ok(()) } else { self.step(next) }
    }

    /// A reserved amount is free again.
    ///
    /// # Errors
    /// [`Error::Internal`] if it was not reserved.
    pub fn release(&mut self, amount: i64) -> Result<()> {
        if amount > self.amount_refund_pending {
            return Err(Error::internal(format!("{} has not reserved {amount} for a refund", self.id)));
        }
        self.amount_refund_pending -= amount;
        Ok(())
    }

    /// The hold ran out. `false` if it was captured or over before.
    pub fn expire(&mut self) -> bool {
        let expires = self.amount_captured == 0 && self.status.may_become(Status::Expired);
        if expires {
            self.status = Status::Expired;
            self.inquiry_at = None;
        }
        expires
    }

    /// The issuer said no.
    ///
    /// # Errors
    /// [`Error::Internal`] if this payment cannot be declined any more.
    pub fn decline(&mut self, decline: &Decline, card: Option<&Card>) -> Result<()> {
        self.step(Status::Declined)?;
        self.decline_code = Some(decline.code.clone());
        self.decline_type = Some(decline.kind);
        if let Some(card) = card {
            self.show(card);
        }
        Ok(())
    }

    /// The cardholder is asked first, at the provider's address.
    ///
    /// # Errors
    /// [`Error::Internal`] if it is too late for that.
    pub fn challenge(&mut self, action_token: &str, url: &str) -> Result<()> {
        self.step(Status::RequiresAction)?;
        self.action_token = Some(action_token.to_owned());
        self.challenge_url = Some(url.to_owned());
        Ok(())
    }

    /// Nothing was charged, or nothing that stands.
    ///
    /// # Errors
    /// [`Error::Internal`] if something has become of it.
    pub fn fail(&mut self, code: FailureCode) -> Result<()> {
        self.step(Status::Failed)?;
        self.failure_code = Some(code);
        Ok(())
    }

    /// The money has arrived. `false` if that changes nothing, because it has been noted or the payment was cancelled.
    pub fn settle(&mut self) -> bool {
        match self.status.of_settlement() {
            Some(next) if !self.settled && self.amount_captured > 0 => {
                self.status = next;
                self.settled = true;
                self.inquiry_at = None;
                true
            }
            _ => false,
        }
    }

    fn step(&mut self, next: Status) -> Result<()> {
        if !self.status.may_become(next) {
            return Err(Error::internal(format!("{} is {:?} and cannot become {next:?}", self.id, self.status)));
        }
        self.status = next;
        Ok(())
    }

    fn show(&mut self, card: &Card) {
        self.card_brand = Some(card.brand.clone());
        self.card_last4 = Some(card.last4.clone());
        self.card_exp_month = Some(card.exp_month);
        self.card_exp_year = Some(card.exp_year);
    }
}

/// One payment.
///
/// # Errors
/// [`Error::NotFound`], for another account's too.
pub async fn retrieve(db: &PgPool, account: AccountId, id: PaymentId) -> Result<Payment> {
    store::find(db, account, id).await?.ok_or_else(|| Error::no_such("payment", id))
}

/// One payment, if it is there, within a transaction.
///
/// # Errors
/// Only the database's.
pub async fn find(db: &mut PgConnection, account: AccountId, id: PaymentId) -> Result<Option<Payment>> {
    store::find(db, account, id).await
}

/// Locks a payment for its outcome. Payments are locked before their operations.
///
/// # Errors
/// [`Error::NotFound`].
pub async fn lock(tx: &mut PgConnection, account: AccountId, id: PaymentId) -> Result<Payment> {
    store::lock(tx, account, id).await?.ok_or_else(|| Error::no_such("payment", id))
}

/// Writes what may change of a payment once it was charged; what the charge itself made of it is never rewritten. It is
/// locked before.
///
/// # Errors
/// Only the database's.
pub async fn save(tx: &mut PgConnection, payment: &Payment) -> Result<()> {
    store::save(tx, payment).await
}

/// Writes that the cardholder is asked, and the answer that a replay of the request will get. The payment is locked before.
///
/// # Errors
/// Only the database's.
pub async fn save_challenge(tx: &mut PgConnection, payment: &Payment, answer: &str) -> Result<()> {
    store::save_challenge(tx, payment, answer).await
}

/// One payment and its refunds, as they stood at one moment: sums and refunds of an answer always agree.
///
/// # Errors
/// As [`retrieve`].
pub async fn retrieve_with_refunds(db: &PgPool, account: AccountId, id: PaymentId) -> Result<(Payment, Vec<Refund>)> {
    let payment = retrieve(db, account, id).await?;
    if !payment.has_refunds {
        return Ok((payment, vec![]));
    }
    let mut snapshot = db::snapshot(db).await?;
    let payment = store::find(&mut *snapshot, account, id).await?.ok_or_else(|| Error::no_such("payment", id))?;
    let refunds = refunds::of_locked(&mut snapshot, &payment).await?;
    snapshot.commit().await?;
    Ok((payment, refunds))
}

/// A page of payments, newest first, and their refunds, as they stood at one moment.
///
/// # Errors
/// 422 for a cursor that names no payment of the account.
pub async fn list_with_refunds(
    db: &PgPool,
    account: AccountId,
    page: PageRequest<PaymentId>,
) -> Result<(Page<Payment>, Vec<Refund>)> {
    if let Some(cursor) = page.starting_after
        && store::find(db, account, cursor).await?.is_none()
    {
        return Err(unknown_cursor());
    }
    let rows = store::list(db, account, page.starting_after, page.fetch()).await?;
    if !rows.iter().any(|payment| payment.has_refunds) {
        return Ok((page.page(rows), vec![]));
    }
    let mut snapshot = db::snapshot(db).await?;
    let rows = page.page(store::list(&mut *snapshot, account, page.starting_after, page.fetch()).await?);
    let refunds = refunds::of_page(&mut snapshot, account, &rows.data).await?;
    snapshot.commit().await?;
    Ok((rows, refunds))
}

/// Where the live payment for an invoice stands, if there is one: approved and not reversed, or under way. The invoice is
/// locked before.
///
/// # Errors
/// Only the database's.
pub async fn live_for_invoice(tx: &mut PgConnection, account: AccountId, invoice: InvoiceId) -> Result<Option<Status>> {
    store::live_for_invoice(tx, account, invoice).await
}

/// The same for a link. The link is locked before.
///
/// # Errors
/// Only the database's.
pub async fn live_for_link(tx: &mut PgConnection, account: AccountId, link: PaymentLinkId) -> Result<Option<Status>> {
    Ok(store::live_for_link(tx, account, link).await?.filter(|_| proof::holds(Rule::Link)))
}

/// How many cards were tried within the last hour on the page of an invoice or a link, which is locked before, and have paid
/// nothing; counted up to `most`. `now` is the account's time.
///
/// # Errors
/// Only the database's.
pub async fn tried_on_page(
    tx: &mut PgConnection,
    account: AccountId,
    paid_for: Uuid,
    now: Timestamp,
    most: i64,
) -> Result<i64> {
    store::tried_on_page(tx, account, paid_for, now, most).await
}

//! Payments: requested, approved, captured and refunded amounts, and the status.

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
    INQUIRY_BATCH, Inquiry, InquiryKind, due_inquiries, inquiry, next_inquiry, postpone_inquiries, take_due_inquiries,
};
pub use intent::NewPayment;
pub use refunds::{Refund, RefundStatus, RefundView};
pub use status::Status;
pub use view::PaymentView;

use crate::accounts::Mode;
use crate::operations::OperationKind;
use foundation::db;
use foundation::error::{Error, Result};
use foundation::id::{AccountId, CustomerId, InvoiceId, PaymentId, PaymentLinkId, PaymentMethodId, ProviderAccountId};
use foundation::money::Currency;
use foundation::page::{Page, PageRequest, unknown_cursor};
use foundation::proof::{self, Rule};
use foundation::time::Timestamp;
use providers::{Card, Decline, DeclineType, FailureCode, ProviderKind};

/// A payment as stored. Amounts are in minor units of its currency.
#[derive(Clone, Debug)]
pub struct Payment {
    pub id: PaymentId,
    pub account_id: AccountId,
    pub mode: Mode,
    pub provider_account_id: ProviderAccountId,
    pub customer_id: Option<CustomerId>,
    pub payment_method_id: Option<PaymentMethodId>,
    pub invoice_id: Option<InvoiceId>,
    pub payment_link_id: Option<PaymentLinkId>,
    pub status: Status,
    /// Whether the funds have settled; stays true after refunds.
    pub settled: bool,
    /// Whether to capture immediately.
    pub capture: bool,
    /// The currency of all amounts.
    pub currency: Currency,
    pub amount_requested: i64,
    pub amount: i64,
    pub amount_captured: i64,
    pub amount_refunded: i64,
    /// Reserved by pending refunds.
    pub amount_refund_pending: i64,
    /// The amount before surcharge, tax and tip, if the amount has parts.
    pub amount_base: Option<i64>,
    pub amount_surcharge: Option<i64>,
    pub amount_tax: Option<i64>,
    pub amount_tip: Option<i64>,
    /// `visa`, `mastercard`, …
    pub card_brand: Option<String>,
    pub card_last4: Option<String>,
    /// 1 to 12.
    pub card_exp_month: Option<i16>,
    /// Four digits.
    pub card_exp_year: Option<i16>,
    pub decline_code: Option<String>,
    pub decline_type: Option<DeclineType>,
    /// The provider's reference for the charge.
    pub provider_ref: Option<String>,
    pub created_at: Timestamp,
    /// When money was first captured.
    pub captured_at: Option<Timestamp>,
    /// When to next ask the provider for the charge's status.
    pub inquiry_at: Option<Timestamp>,
    /// The change whose outcome is pending or unknown.
    pub pending_operation: Option<OperationKind>,
    /// Whether the payment has rows in `refunds`.
    pub has_refunds: bool,
    /// The token in our URL of the challenge, if there was one.
    pub action_token: Option<String>,
    /// The provider's URL of the challenge.
    pub challenge_url: Option<String>,
    /// Why the payment failed, or why its last capture or void failed.
    pub failure_code: Option<FailureCode>,
}

impl Payment {
    /// The amount that counts towards the invoice or link, once approved: surcharge, tax and tip added on a hosted page
    /// do not count.
    pub fn applied_amount(&self) -> i64 {
        self.amount_base.unwrap_or(self.amount)
    }

    /// Records the provider's approval of the charge.
    ///
    /// # Errors
    /// [`Error::Internal`] if the payment can no longer be approved.
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
            self.set_card(card);
        }
        if self.capture {
            self.set_captured(amount, provider, now);
        } else {
            self.inquiry_at = Some(now.plus(provider.authorization_lifetime()));
        }
        Ok(())
    }

    fn set_captured(&mut self, amount: i64, provider: ProviderKind, now: Timestamp) {
        self.amount_captured = amount;
        self.captured_at = Some(now);
        self.inquiry_at = Some(now.plus(provider.settles_after()));
    }

    /// Records the capture of an authorization.
    ///
    /// # Errors
    /// [`Error::Internal`] if there is no authorization to capture.
    pub fn captured(&mut self, amount: i64, provider: ProviderKind, now: Timestamp) -> Result<()> {
        self.step(Status::PendingSettlement)?;
        self.pending_operation = None;
        self.failure_code = None;
        self.set_captured(amount, provider, now);
        Ok(())
    }

    /// Records that the charge was voided before it settled.
    ///
    /// # Errors
    /// [`Error::Internal`] if the payment can no longer be voided.
    pub fn voided(&mut self) -> Result<()> {
        self.step(Status::Cancelled)?;
        self.pending_operation = None;
        self.failure_code = None;
        self.inquiry_at = None;
        Ok(())
    }

    /// Records a successful refund of a reserved amount.
    ///
    /// # Errors
    /// [`Error::Internal`] if the amount is not reserved.
    pub fn refunded(&mut self, amount: i64) -> Result<()> {
        self.release(amount)?;
        self.amount_refunded += amount;
        let all = self.amount_refunded == self.amount_captured;
        let next = if all { Status::Refunded } else { Status::PartiallyRefunded };
        if all && self.settled {
            // Fully refunded and settled: no further inquiry is needed.
            self.inquiry_at = None;
        }
        if self.status == next { Ok(()) } else { self.step(next) }
    }

    /// Releases an amount that was reserved for a refund.
    ///
    /// # Errors
    /// [`Error::Internal`] if the amount is not reserved.
    pub fn release(&mut self, amount: i64) -> Result<()> {
        if amount > self.amount_refund_pending {
            return Err(Error::internal(format!("{amount} is not reserved for a refund of {}", self.id)));
        }
        self.amount_refund_pending -= amount;
        Ok(())
    }

    /// Records that the authorization expired. Returns `false` if the payment was captured or has already ended.
    pub fn expire(&mut self) -> bool {
        let expires = self.amount_captured == 0 && self.status.may_become(Status::Expired);
        if expires {
            self.status = Status::Expired;
            self.inquiry_at = None;
        }
        expires
    }

    /// Records a decline by the issuer.
    ///
    /// # Errors
    /// [`Error::Internal`] if the payment can no longer be declined.
    pub fn decline(&mut self, decline: &Decline, card: Option<&Card>) -> Result<()> {
        self.step(Status::Declined)?;
        self.decline_code = Some(decline.code.clone());
        self.decline_type = Some(decline.kind);
        if let Some(card) = card {
            self.set_card(card);
        }
        Ok(())
    }

    /// Records that the cardholder must first authenticate at the provider's URL.
    ///
    /// # Errors
    /// [`Error::Internal`] if the payment can no longer be challenged.
    pub fn challenge(&mut self, action_token: &str, url: &str) -> Result<()> {
        self.step(Status::RequiresAction)?;
        self.action_token = Some(action_token.to_owned());
        self.challenge_url = Some(url.to_owned());
        Ok(())
    }

    /// Records that nothing was charged, or that the charge is being reversed.
    ///
    /// # Errors
    /// [`Error::Internal`] if the payment has another outcome.
    pub fn fail(&mut self, code: FailureCode) -> Result<()> {
        self.step(Status::Failed)?;
        self.failure_code = Some(code);
        Ok(())
    }

    /// Records settlement. Returns `false` if that changes nothing, because it was already recorded or the payment was
    /// cancelled.
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

    fn set_card(&mut self, card: &Card) {
        self.card_brand = Some(card.brand.clone());
        self.card_last4 = Some(card.last4.clone());
        self.card_exp_month = Some(card.exp_month);
        self.card_exp_year = Some(card.exp_year);
    }
}

/// Returns a payment.
///
/// # Errors
/// [`Error::NotFound`], also if it belongs to another account.
pub async fn retrieve(db: &PgPool, account: AccountId, id: PaymentId) -> Result<Payment> {
    store::find(db, account, id).await?.ok_or_else(|| Error::no_such("payment", id))
}

/// Returns a payment if it exists, within a transaction.
///
/// # Errors
/// Database errors only.
pub async fn find(db: &mut PgConnection, account: AccountId, id: PaymentId) -> Result<Option<Payment>> {
    store::find(db, account, id).await
}

/// Locks a payment to write its outcome. Payments are locked before their operations.
///
/// # Errors
/// [`Error::NotFound`].
pub async fn lock(tx: &mut PgConnection, account: AccountId, id: PaymentId) -> Result<Payment> {
    store::lock(tx, account, id).await?.ok_or_else(|| Error::no_such("payment", id))
}

/// Writes the fields that may change after the charge; the fields that the charge itself set are never rewritten. The
/// caller has locked the payment.
///
/// # Errors
/// Database errors only.
pub async fn save(tx: &mut PgConnection, payment: &Payment) -> Result<()> {
    store::save(tx, payment).await
}

/// Records the challenge, and the response that a replay of the request returns. The caller has locked the payment.
///
/// # Errors
/// Database errors only.
pub async fn save_challenge(tx: &mut PgConnection, payment: &Payment, response: &str) -> Result<()> {
    store::save_challenge(tx, payment, response).await
}

/// Returns a payment and its refunds from one snapshot, so that sums and refunds in a response agree.
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
    let refunds = refunds::of_payment(&mut snapshot, &payment).await?;
    snapshot.commit().await?;
    Ok((payment, refunds))
}

/// Returns a page of payments, newest first, and their refunds, from one snapshot.
///
/// # Errors
/// 422 if the cursor is not a payment of the account.
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
    let refunds = refunds::of_payments(&mut snapshot, account, &rows.data).await?;
    snapshot.commit().await?;
    Ok((rows, refunds))
}

/// Returns the status of the live payment for an invoice, if there is one: approved and not reversed, or in progress.
/// The caller has locked the invoice.
///
/// # Errors
/// Database errors only.
pub async fn live_for_invoice(tx: &mut PgConnection, account: AccountId, invoice: InvoiceId) -> Result<Option<Status>> {
    store::live_for_invoice(tx, account, invoice).await
}

/// Like [`live_for_invoice`], for a payment link, which the caller has locked.
///
/// # Errors
/// Database errors only.
pub async fn live_for_link(tx: &mut PgConnection, account: AccountId, link: PaymentLinkId) -> Result<Option<Status>> {
    Ok(store::live_for_link(tx, account, link).await?.filter(|_| proof::holds(Rule::Link)))
}

/// Counts the unsuccessful card attempts within the last hour on the page of an invoice or link, up to `limit`. The
/// caller has locked the invoice or link. `now` is the account's time.
///
/// # Errors
/// Database errors only.
pub async fn unsuccessful_attempts_on_page(
    tx: &mut PgConnection,
    account: AccountId,
    paid_for: Uuid,
    now: Timestamp,
    limit: i64,
) -> Result<i64> {
    store::unsuccessful_attempts_on_page(tx, account, paid_for, now, limit).await
}

//! A payment and its changes of state.

use std::time::Duration;

use super::status::Status;
use crate::accounts::Mode;
use crate::operations::OperationKind;
use foundation::error::{Error, Result};
use foundation::id::{AccountId, CustomerId, InvoiceId, PaymentId, PaymentLinkId, PaymentMethodId, ProviderAccountId};
use foundation::merchant_data::{ExternalId, Metadata};
use foundation::money::Currency;
use foundation::time::Timestamp;
use providers::{Card, Decline, DeclineType, FailureCode, ProviderKind};

/// How far the claim of an inquiry moves its time (`inquiries.rs`).
const INQUIRY_CLAIM: Duration = Duration::from_secs(30);

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
    /// Withdrawn at present because of disputes.
    pub amount_disputed: i64,
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
    /// How often an event or a statement has requested that.
    pub inquiry_requests: i64,
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
    /// What became of its charge of a wrong amount.
    pub charge_return: Option<ChargeReturn>,
    pub description: Option<String>,
    pub metadata: Option<Metadata>,
    pub external_id: Option<ExternalId>,
    /// Rises with each change that the API shows.
    pub version: i64,
}

/// The return of a charge that belongs to no payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum ChargeReturn {
    /// It is being reversed.
    Pending,
    Returned,
    /// The provider refused both a void and a refund, so an operator must return it.
    Refused,
}

impl ChargeReturn {
    /// The `failureMessage` of a payment that was charged a wrong amount.
    pub const fn message(self) -> &'static str {
        match self {
            Self::Pending => FailureCode::AmountMismatch.message(),
            Self::Returned => "The provider charged a different amount than requested. The charge was returned.",
            Self::Refused => {
                "The provider charged a different amount than requested and refused to return it. Support will return it."
            }
        }
    }
}

impl Payment {
    /// The amount that counts towards the invoice or link, once approved: surcharge, tax and tip added on a hosted page
    /// do not count.
    pub fn applied_amount(&self) -> i64 {
        self.amount_base.unwrap_or(self.amount)
    }

    /// Whether it collects an invoice: of the payments for invoices, those of a payer on the page name no card, even if they
    /// charge the card that they save.
    pub const fn is_collection(&self) -> bool {
        self.invoice_id.is_some() && self.payment_method_id.is_some()
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
        self.schedule_inquiry(Some(now.plus(provider.settles_after())), now);
    }

    /// Sets when the next inquiry about the charge is due, unless one is due or in progress: an event or a statement may have
    /// requested it, because of something that this outcome does not show, such as a dispute.
    fn schedule_inquiry(&mut self, next: Option<Timestamp>, now: Timestamp) {
        let requested = self.inquiry_at.filter(|at| *at <= now.plus(INQUIRY_CLAIM));
        self.inquiry_at = requested.or(next);
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
    pub fn voided(&mut self, now: Timestamp) -> Result<()> {
        self.step(Status::Cancelled)?;
        self.pending_operation = None;
        self.failure_code = None;
        self.schedule_inquiry(None, now);
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
        // The event is written with it.
        self.version += 1;
        Ok(())
    }

    /// Records that nothing was charged, or that the charge is being reversed.
    ///
    /// # Errors
    /// [`Error::Internal`] if the payment has another outcome.
    pub fn fail(&mut self, code: FailureCode) -> Result<()> {
        self.step(Status::Failed)?;
        self.failure_code = Some(code);
        self.charge_return = (code == FailureCode::AmountMismatch).then_some(ChargeReturn::Pending);
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

    /// Sets the details of the card that is charged.
    pub fn set_card(&mut self, card: &Card) {
        self.card_brand = Some(card.brand.clone());
        self.card_last4 = Some(card.last4.clone());
        self.card_exp_month = Some(card.exp_month);
        self.card_exp_year = Some(card.exp_year);
    }
}

//! A payment before anything has become of it.

use super::{Payment, Status};
use crate::accounts::Mode;
use crate::id::{AccountId, CustomerId, InvoiceId, PaymentId, PaymentLinkId, PaymentMethodId, ProviderAccountId};
use crate::modifiers::Parts;
use crate::money::Money;
use crate::providers::Card;
use crate::time::Timestamp;

/// A payment to be made. Everything about it has been checked.
#[derive(Debug)]
pub struct NewPayment<'a> {
    /// Its id, made before the transaction.
    pub id: PaymentId,
    /// Whose it is.
    pub account_id: AccountId,
    /// Where it is charged.
    pub provider_account_id: ProviderAccountId,
    /// How much.
    pub money: Money,
    /// Whether to capture at once.
    pub capture: bool,
    /// Who pays, if known.
    pub customer_id: Option<CustomerId>,
    /// With which saved card, and what it looks like.
    pub payment_method: Option<(PaymentMethodId, &'a Card)>,
    /// What it is to pay for, if that is known: both are locked before it is written.
    pub invoice_id: Option<InvoiceId>,
    /// Or this link.
    pub payment_link_id: Option<PaymentLinkId>,
    /// Where the merchant wants a cardholder back after a challenge.
    pub return_url: Option<&'a str>,
    /// What it is composed of, if it is: they add up to `money`.
    pub parts: Option<Parts>,
}

impl Payment {
    /// A payment as it stands when its intent is committed.
    pub fn processing(new: &NewPayment<'_>, mode: Mode, now: Timestamp) -> Self {
        let mut payment = Self {
            id: new.id,
            account_id: new.account_id,
            mode,
            provider_account_id: new.provider_account_id,
            customer_id: new.customer_id,
            payment_method_id: new.payment_method.map(|(id, _)| id),
            invoice_id: new.invoice_id,
            payment_link_id: new.payment_link_id,
            status: Status::Processing,
            settled: false,
            capture: new.capture,
            currency: new.money.currency,
            amount_requested: new.money.minor,
            amount: new.money.minor,
            amount_captured: 0,
            amount_refunded: 0,
            amount_refund_pending: 0,
            amount_base: new.parts.map(|parts| parts.base),
            amount_surcharge: new.parts.and_then(|parts| parts.surcharge),
            amount_tax: new.parts.and_then(|parts| parts.tax),
            amount_tip: new.parts.and_then(|parts| parts.tip),
            card_brand: None,
            card_last4: None,
            card_exp_month: None,
            card_exp_year: None,
            decline_code: None,
            decline_type: None,
            provider_ref: None,
            created_at: now,
            captured_at: None,
            inquiry_at: None,
            pending_operation: None,
            has_refunds: false,
            action_token: None,
            challenge_url: None,
            failure_code: None,
        };
        if let Some((_, card)) = new.payment_method {
            payment.show(card);
        }
        payment
    }
}

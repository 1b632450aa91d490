//! A payment before its outcome.

use super::payment::Payment;
use super::status::Status;
use crate::accounts::Mode;
use crate::modifiers::Parts;
use foundation::id::{AccountId, CustomerId, InvoiceId, PaymentId, PaymentLinkId, PaymentMethodId, ProviderAccountId};
use foundation::merchant_data::MerchantData;
use foundation::money::Money;
use foundation::time::Timestamp;
use providers::Card;

/// A validated payment to create.
#[derive(Debug)]
pub struct NewPayment<'a> {
    /// Generated before the transaction.
    pub id: PaymentId,
    pub account_id: AccountId,
    pub provider_account_id: ProviderAccountId,
    pub money: Money,
    pub capture: bool,
    pub customer_id: Option<CustomerId>,
    pub payment_method: Option<(PaymentMethodId, &'a Card)>,
    /// The invoice to pay; the caller has locked it.
    pub invoice_id: Option<InvoiceId>,
    /// The payment link to pay; the caller has locked it.
    pub payment_link_id: Option<PaymentLinkId>,
    /// The parts of the amount, which add up to `money`.
    pub parts: Option<Parts>,
    pub description: Option<String>,
    pub merchant_data: MerchantData,
}

impl Payment {
    /// The payment at the time its intent is committed.
    pub fn processing(new: NewPayment<'_>, mode: Mode, now: Timestamp) -> Self {
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
            amount_disputed: 0,
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
            inquiry_requests: 0,
            pending_operation: None,
            has_refunds: false,
            action_token: None,
            challenge_url: None,
            failure_code: None,
            charge_return: None,
            description: new.description,
            metadata: new.merchant_data.metadata,
            external_id: new.merchant_data.external_id,
            version: 1,
        };
        if let Some((_, card)) = new.payment_method {
            payment.set_card(card);
        }
        payment
    }
}

//! A payment as the API answers it and as events carry it.

use serde::Serialize;

use super::{Payment, Refund, RefundView};
use crate::accounts::Mode;
use crate::id::{CustomerId, InvoiceId, PaymentId, PaymentLinkId, PaymentMethodId};
use crate::money::Currency;
use crate::operations::Kind;
use crate::providers::DeclineType;
use crate::time::Timestamp;

/// The public JSON of a payment.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PaymentView<'a> {
    /// Its id.
    pub id: PaymentId,
    object: &'static str,
    livemode: bool,
    created_at: Timestamp,
    status: &'static str,
    settled: bool,
    capture: bool,
    currency: Currency,
    amount: i64,
    amount_requested: i64,
    amount_captured: i64,
    amount_refunded: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    customer_id: Option<CustomerId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payment_method_id: Option<PaymentMethodId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    invoice_id: Option<InvoiceId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payment_link_id: Option<PaymentLinkId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    card: Option<CardView<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    decline_code: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    decline_type: Option<DeclineType>,
    #[serde(skip_serializing_if = "Option::is_none")]
    amount_base: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    amount_surcharge: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    amount_tax: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    amount_tip: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pending_operation: Option<&'static str>,
    refunds: Vec<RefundView>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CardView<'a> {
    brand: &'a str,
    last4: &'a str,
    exp_month: i16,
    exp_year: i16,
}

impl<'a> PaymentView<'a> {
    /// Renders a payment with its refunds among these, which [`refunds::of`](super::refunds::of) reads.
    pub fn new(payment: &'a Payment, refunds: &[Refund]) -> Self {
        Self {
            id: payment.id,
            object: "payment",
            livemode: payment.mode == Mode::Live,
            created_at: payment.created_at,
            status: payment.status.name(),
            settled: payment.settled,
            capture: payment.capture,
            currency: payment.currency,
            amount: payment.amount,
            amount_requested: payment.amount_requested,
            amount_captured: payment.amount_captured,
            amount_refunded: payment.amount_refunded,
            customer_id: payment.customer_id,
            payment_method_id: payment.payment_method_id,
            invoice_id: payment.invoice_id,
            payment_link_id: payment.payment_link_id,
            card: card(payment),
            decline_code: payment.decline_code.as_deref(),
            decline_type: payment.decline_type,
            amount_base: payment.amount_base,
            amount_surcharge: payment.amount_surcharge,
            amount_tax: payment.amount_tax,
            amount_tip: payment.amount_tip,
            pending_operation: payment.pending_operation.map(Kind::name),
            refunds: refunds
                .iter()
                .filter(|refund| refund.payment_id == payment.id)
                .map(|refund| RefundView::new(refund, payment))
                .collect(),
        }
    }
}

fn card(payment: &Payment) -> Option<CardView<'_>> {
    Some(CardView {
        brand: payment.card_brand.as_deref()?,
        last4: payment.card_last4.as_deref()?,
        exp_month: payment.card_exp_month?,
        exp_year: payment.card_exp_year?,
    })
}

//! A payment as the API answers it and as events carry it.

use serde::Serialize;
use utoipa::ToSchema;

use super::{Payment, Refund, RefundView, Status};
use crate::accounts::Mode;
use crate::id::{CustomerId, InvoiceId, PaymentId, PaymentLinkId, PaymentMethodId};
use crate::money::Currency;
use crate::operations::Kind;
use crate::providers::{DeclineType, FailureCode};
use crate::public_url;
use crate::schema;
use crate::time::Timestamp;

/// The public JSON of a payment.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Payment, description = "A payment as it stands. Optional fields are there where they apply.")]
pub struct PaymentView<'a> {
    /// Its id.
    pub id: PaymentId,
    #[schema(schema_with = schema::payment)]
    object: &'static str,
    livemode: bool,
    created_at: Timestamp,
    /// Where it stands.
    #[schema(schema_with = statuses)]
    status: &'static str,
    /// True once the money has arrived; it stays true through refunds.
    settled: bool,
    /// Whether the money was to be taken at once.
    capture: bool,
    currency: Currency,
    /// What was authorized; until that is known, and after a decline or a failure, what was asked for.
    #[schema(schema_with = schema::amount)]
    amount: i64,
    /// What was asked for.
    #[schema(schema_with = schema::amount)]
    amount_requested: i64,
    /// What was taken.
    #[schema(schema_with = schema::amount)]
    amount_captured: i64,
    /// What has gone back.
    #[schema(schema_with = schema::amount)]
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
    /// The card that pays: of a saved card at once, of a token once the provider has said.
    card: Option<CardView<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Of a declined payment: the reason, the same word whichever provider said it.
    decline_code: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    decline_type: Option<DeclineType>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Why the payment failed, or why its last capture or void did.
    failure_code: Option<FailureCode>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The same for people.
    failure_message: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = schema::amount)]
    amount_base: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = schema::amount)]
    amount_surcharge: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = schema::amount)]
    amount_tax: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = schema::amount)]
    amount_tip: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// While the cardholder must authenticate: where.
    next_action: Option<NextAction>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// A capture, void or refund whose outcome is not known yet.
    #[schema(schema_with = pending)]
    pending_operation: Option<&'static str>,
    /// In the order made.
    refunds: Vec<RefundView>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = NextAction, description = "What the cardholder does next.")]
struct NextAction {
    #[serde(rename = "type")]
    #[schema(schema_with = redirect)]
    kind: &'static str,
    /// Where to send the cardholder's browser, within half a minute.
    url: String,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Card, description = "What a card looks like.")]
struct CardView<'a> {
    brand: &'a str,
    #[schema(schema_with = schema::last4)]
    last4: &'a str,
    #[schema(schema_with = schema::month)]
    exp_month: i16,
    #[schema(schema_with = schema::year)]
    exp_year: i16,
}

fn statuses() -> schema::Field {
    schema::word(Status::ALL.map(Status::name)).into()
}

fn redirect() -> schema::Field {
    schema::word(["redirect"]).into()
}

fn pending() -> schema::Field {
    schema::word([Kind::Capture, Kind::Void, Kind::Refund].map(Kind::name)).into()
}

impl<'a> PaymentView<'a> {
    /// Renders a payment with its refunds among these, read at the same moment.
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
            failure_code: payment.failure_code,
            failure_message: payment.failure_code.map(FailureCode::message),
            amount_base: payment.amount_base,
            amount_surcharge: payment.amount_surcharge,
            amount_tax: payment.amount_tax,
            amount_tip: payment.amount_tip,
            next_action: next_action(payment),
            pending_operation: payment.pending_operation.map(Kind::name),
            refunds: refunds
                .iter()
                .filter(|refund| refund.payment_id == payment.id)
                .map(|refund| RefundView::new(refund, payment))
                .collect(),
        }
    }
}

/// Our own address, which leads to the provider's.
fn next_action(payment: &Payment) -> Option<NextAction> {
    let token = payment.action_token.as_ref().filter(|_| payment.status == Status::RequiresAction)?;
    Some(NextAction { kind: "redirect", url: public_url::of(format_args!("/pay/a/{token}")) })
}

fn card(payment: &Payment) -> Option<CardView<'_>> {
    Some(CardView {
        brand: payment.card_brand.as_deref()?,
        last4: payment.card_last4.as_deref()?,
        exp_month: payment.card_exp_month?,
        exp_year: payment.card_exp_year?,
    })
}

//! A payment as API responses and events contain it.

use serde::Serialize;
use utoipa::ToSchema;

use super::payment::{ChargeReturn, Payment};
use super::refunds::{Refund, RefundView};
use super::status::Status;
use crate::accounts::Mode;
use crate::operations::OperationKind;
use foundation::id::{CustomerId, InvoiceId, PaymentId, PaymentLinkId, PaymentMethodId};
use foundation::money::Currency;
use foundation::own_data::{ExternalId, Metadata};
use foundation::public_url;
use foundation::schema;
use foundation::time::Timestamp;
use providers::{DeclineType, FailureCode};

/// The public JSON of a payment.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Payment, description = "A payment in its current state. Optional fields are present where they apply.")]
pub struct PaymentView<'a> {
    pub id: PaymentId,
    #[schema(schema_with = schema::payment)]
    object: &'static str,
    livemode: bool,
    created_at: Timestamp,
    /// Rises with each change.
    #[schema(schema_with = schema::version)]
    version: i64,
    #[schema(schema_with = statuses)]
    status: &'static str,
    /// True once the funds have settled; it stays true after refunds.
    settled: bool,
    /// Whether to capture the payment immediately.
    capture: bool,
    currency: Currency,
    /// The authorized amount. Until that is known, and after a decline or failure, the requested amount.
    #[schema(schema_with = schema::amount)]
    amount: i64,
    /// The requested amount.
    #[schema(schema_with = schema::amount)]
    amount_requested: i64,
    /// The captured amount.
    #[schema(schema_with = schema::amount)]
    amount_captured: i64,
    /// The refunded amount.
    #[schema(schema_with = schema::amount)]
    amount_refunded: i64,
    /// The amount that is withdrawn because of disputes: it cannot be refunded.
    #[schema(schema_with = schema::amount)]
    amount_disputed: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    customer_id: Option<CustomerId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payment_method_id: Option<PaymentMethodId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    invoice_id: Option<InvoiceId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payment_link_id: Option<PaymentLinkId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The card: for a saved card from the start, for a token once the provider has returned it.
    card: Option<CardView<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Why the payment was declined. The codes are the same for all providers.
    decline_code: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    decline_type: Option<DeclineType>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Why the payment failed, or why its last capture or void failed.
    failure_code: Option<FailureCode>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// A readable text for `failureCode`.
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
    /// Where the cardholder must authenticate, while the status is `requires_action`.
    next_action: Option<NextAction>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// A capture, void or refund whose outcome is not yet known.
    #[schema(schema_with = pending)]
    pending_operation: Option<&'static str>,
    /// In the order of creation.
    refunds: Vec<RefundView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Your own data.
    metadata: Option<&'a Metadata>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Your own id.
    external_id: Option<&'a ExternalId>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = NextAction, description = "The next step for the cardholder.")]
struct NextAction {
    #[serde(rename = "type")]
    #[schema(schema_with = redirect)]
    kind: &'static str,
    /// Redirect the cardholder's browser to this URL within 30 seconds.
    url: String,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Card, description = "The displayable details of a card.")]
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
    schema::enumeration(Status::ALL.map(Status::name)).into()
}

fn redirect() -> schema::Field {
    schema::enumeration(["redirect"]).into()
}

fn pending() -> schema::Field {
    schema::enumeration([OperationKind::Capture, OperationKind::Void, OperationKind::Refund].map(OperationKind::name))
        .into()
}

impl<'a> PaymentView<'a> {
    /// Renders a payment. `refunds` may include those of other payments and must come from the same snapshot.
    pub fn new(payment: &'a Payment, refunds: &[Refund]) -> Self {
        let failure_message = payment.charge_return.map(ChargeReturn::message);
        Self {
            id: payment.id,
            object: "payment",
            livemode: payment.mode == Mode::Live,
            created_at: payment.created_at,
            version: payment.version,
            status: payment.status.name(),
            settled: payment.settled,
            capture: payment.capture,
            currency: payment.currency,
            amount: payment.amount,
            amount_requested: payment.amount_requested,
            amount_captured: payment.amount_captured,
            amount_refunded: payment.amount_refunded,
            amount_disputed: payment.amount_disputed,
            description: payment.description.as_deref(),
            customer_id: payment.customer_id,
            payment_method_id: payment.payment_method_id,
            invoice_id: payment.invoice_id,
            payment_link_id: payment.payment_link_id,
            card: card(payment),
            decline_code: payment.decline_code.as_deref(),
            decline_type: payment.decline_type,
            failure_code: payment.failure_code,
            failure_message: failure_message.or_else(|| payment.failure_code.map(FailureCode::message)),
            amount_base: payment.amount_base,
            amount_surcharge: payment.amount_surcharge,
            amount_tax: payment.amount_tax,
            amount_tip: payment.amount_tip,
            next_action: next_action(payment),
            pending_operation: payment.pending_operation.map(OperationKind::name),
            refunds: refunds
                .iter()
                .filter(|refund| refund.payment_id == payment.id)
                .map(|refund| RefundView::new(refund, payment.currency, payment.mode == Mode::Live))
                .collect(),
            metadata: payment.metadata.as_ref(),
            external_id: payment.external_id.as_ref(),
        }
    }
}

/// Our URL, which redirects to the provider's.
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

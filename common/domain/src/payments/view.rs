//! A payment as API responses and events contain it.

use serde::Serialize;
use utoipa::ToSchema;

use super::payment::{ChargeReturn, Payment};
use super::refunds::{Refund, RefundView};
use super::status::Status;
use crate::accounts::Mode;
use crate::operations::OperationKind;
use foundation::id::{CustomerId, InvoiceId, PaymentId, PaymentLinkId, PaymentMethodId};
use foundation::merchant_data::{ExternalId, Metadata};
use foundation::money::Currency;
use foundation::public_url;
use foundation::schema;
use foundation::time::Timestamp;
use providers::{DeclineCode, DeclineType, FailureCode};

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
    #[schema(schema_with = schema::version)]
    version: i64,
    /// - `processing`: the outcome is not known yet.
    /// - `requires_action`: the cardholder must authenticate, see `nextAction`.
    /// - `authorized`: authorized in full, not captured.
    /// - `partially_authorized`: authorized for less than requested, captured or not: see `amountCaptured`.
    /// - `pending_settlement`: captured.
    /// - `declined`: the issuer refused it, see `declineCode`. Final.
    /// - `failed`: nothing was charged, see `failureCode`. Final.
    /// - `settled`: the provider has settled it.
    /// - `partially_refunded`: a part was refunded.
    /// - `refunded`: everything captured was refunded. Final.
    /// - `cancelled`: voided. Final.
    /// - `expired`: the authorization expired before a capture. Final.
    #[schema(value_type = Status)]
    status: &'static str,
    /// True once the funds have settled; it stays true after refunds.
    settled: bool,
    /// Whether the request asked to capture at once.
    capture: bool,
    currency: Currency,
    /// What the issuer authorized, in the currency's minor unit. Until that is known, and after a decline or failure, what
    /// was requested.
    #[schema(value_type = schema::Amount)]
    amount: i64,
    /// What the request asked for, in the currency's minor unit.
    #[schema(value_type = schema::Amount)]
    amount_requested: i64,
    /// What was captured, in the currency's minor unit; 0 before the capture.
    #[schema(value_type = schema::Amount)]
    amount_captured: i64,
    /// The sum of the successful refunds, in the currency's minor unit. Pending refunds do not count.
    #[schema(value_type = schema::Amount)]
    amount_refunded: i64,
    /// What the provider has withdrawn because of disputes that are not won, in the currency's minor unit. It cannot be
    /// refunded.
    #[schema(value_type = schema::Amount)]
    amount_disputed: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Your own description.
    description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The customer who pays.
    customer_id: Option<CustomerId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The saved card that is charged. Absent if a token is.
    payment_method_id: Option<PaymentMethodId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The invoice that it pays.
    invoice_id: Option<InvoiceId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The payment link that it pays.
    payment_link_id: Option<PaymentLinkId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The card: for a saved card from the start, for a token once the provider has returned it.
    card: Option<CardView<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<DeclineCode>)]
    decline_code: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    decline_type: Option<DeclineType>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure_code: Option<FailureCode>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// A readable text for `failureCode`.
    failure_message: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The invoice's or link's part of a charge on a payment page, in the currency's minor unit. Other charges have no parts.
    #[schema(value_type = Option<schema::Amount>)]
    amount_base: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The surcharge that the account's settings add, in the currency's minor unit. Absent if it is 0.
    #[schema(value_type = Option<schema::Amount>)]
    amount_surcharge: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The tax that the account's settings add, in the currency's minor unit. Absent if it is 0.
    #[schema(value_type = Option<schema::Amount>)]
    amount_tax: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The tip that the payer chose, in the currency's minor unit. Absent if it is 0.
    #[schema(value_type = Option<schema::Amount>)]
    amount_tip: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Where the cardholder must authenticate, while the status is `requires_action`.
    next_action: Option<NextAction>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// A capture, void or refund whose outcome is not yet known. Until it is, other changes return 409.
    #[schema(value_type = Option<PendingOperation>)]
    pending_operation: Option<&'static str>,
    /// All refunds in the order of creation, also pending and failed ones.
    refunds: Vec<RefundView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a Metadata>,
    #[serde(skip_serializing_if = "Option::is_none")]
    external_id: Option<&'a ExternalId>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = NextAction, description = "The next step for the cardholder.")]
struct NextAction {
    /// What to do.
    #[serde(rename = "type")]
    #[schema(value_type = ActionKind)]
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

schema::schema_is!(Status, schema::enumeration(Status::ALL.map(Status::name)));
schema::field_types! {
    ActionKind = schema::enumeration(["redirect"]);
    PendingOperation = schema::enumeration(
        [OperationKind::Capture, OperationKind::Void, OperationKind::Refund].map(OperationKind::name)
    );
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

//! The JSON of an invoice in API responses and events.

use serde::Serialize;
use utoipa::ToSchema;

use super::invoice::Invoice;
use super::items::Item;
use super::numbering::Number;
use super::status::Status;
use crate::accounts::Mode;
use foundation::calendar::PaymentTerms;
use foundation::id::{CustomerId, InvoiceId, PaymentId, RecurringInvoiceId, SubscriptionId};
use foundation::merchant_data::{ExternalId, Metadata};
use foundation::money::Currency;
use foundation::public_url;
use foundation::schema;
use foundation::time::Timestamp;

/// An invoice in the API.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Invoice, description = "An invoice to a customer. Optional fields are present where they apply.")]
pub struct InvoiceView<'a> {
    pub id: InvoiceId,
    #[schema(schema_with = schema::invoice)]
    object: &'static str,
    livemode: bool,
    created_at: Timestamp,
    #[schema(schema_with = schema::version)]
    version: i64,
    /// The customer who is billed.
    customer_id: CustomerId,
    /// - `draft`: not issued yet.
    /// - `open`: issued and unpaid.
    /// - `scheduled`: unpaid, and collected automatically.
    /// - `paid`: paid in full, also if the payment is refunded later.
    /// - `voided`: it can no longer be paid. Final.
    #[schema(value_type = Status)]
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Assigned when the invoice is issued. An account's numbers have no gaps.
    number: Option<Number>,
    currency: Currency,
    /// The total owed, in the currency's minor unit: as sent, or computed from `items`, `amountTax` and `amountDiscount`.
    #[schema(value_type = schema::PositiveAmount)]
    amount: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Tax included in `amount`, in the currency's minor unit. Present if it was sent.
    #[schema(value_type = Option<schema::Amount>)]
    amount_tax: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Discount subtracted from `amount`, in the currency's minor unit. Present if it was sent.
    #[schema(value_type = Option<schema::Amount>)]
    amount_discount: Option<i64>,
    /// In the currency's minor unit: 0, and `amount` once the invoice is paid. What a payment page adds does not count.
    #[schema(value_type = schema::Amount)]
    amount_paid: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// What was refunded of its payment, in the currency's minor unit. Absent if nothing was.
    #[schema(value_type = Option<schema::PositiveAmount>)]
    amount_refunded: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Shown to the customer.
    description: Option<&'a str>,
    /// In the order sent; empty if only an amount was sent.
    items: &'a [Item],
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The terms from which `dueAt` is computed. Absent if `dueAt` was sent.
    #[schema(value_type = Option<PaymentTerms>)]
    payment_terms: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// When the invoice was issued.
    issued_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// When payment is due. Set when the invoice is issued.
    due_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// When automatic collection starts or started.
    collect_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// When the next collection attempt is due. Absent during an attempt, and while another card is awaited.
    next_attempt_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// When the invoice was paid.
    paid_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The payment that paid the invoice.
    payment_id: Option<PaymentId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The recurring invoice that created the invoice.
    recurring_invoice_id: Option<RecurringInvoiceId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The subscription that the invoice bills.
    subscription_id: Option<SubscriptionId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The first and last day of the cycle that the invoice bills: `YYYY-MM-DD/YYYY-MM-DD`.
    billing_period: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// True once the last collection retry has failed.
    collection_exhausted: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// When the invoice was voided.
    voided_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The URL of the payment page, to be shared with the payer. Present once the invoice is issued.
    #[schema(value_type = Option<schema::PageUrl>)]
    url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a Metadata>,
    #[serde(skip_serializing_if = "Option::is_none")]
    external_id: Option<&'a ExternalId>,
}

schema::schema_is!(Status, schema::enumeration(Status::ALL.map(Status::name)));

impl<'a> InvoiceView<'a> {
    pub fn new(invoice: &'a Invoice) -> Self {
        Self {
            id: invoice.id,
            object: "invoice",
            livemode: invoice.mode == Mode::Live,
            created_at: invoice.created_at,
            version: invoice.version,
            customer_id: invoice.customer_id,
            status: invoice.status.name(),
            number: invoice.number,
            currency: invoice.currency,
            amount: invoice.amount,
            amount_tax: invoice.amount_tax,
            amount_discount: invoice.amount_discount,
            amount_paid: invoice.amount_paid,
            amount_refunded: Some(invoice.amount_refunded).filter(|amount| *amount > 0),
            description: invoice.description.as_deref(),
            items: invoice.items.rows(),
            payment_terms: invoice.payment_terms.map(PaymentTerms::name),
            issued_at: invoice.issued_at,
            due_at: invoice.due_at,
            collect_at: invoice.collect_at,
            next_attempt_at: invoice.next_attempt_at,
            paid_at: invoice.paid_at,
            payment_id: invoice.payment_id,
            recurring_invoice_id: invoice.recurring_invoice_id,
            subscription_id: invoice.subscription_id,
            billing_period: invoice.billing_period.as_deref(),
            collection_exhausted: invoice.collection_exhausted.then_some(true),
            voided_at: invoice.voided_at,
            url: invoice.number.map(|_| public_url::of(format_args!("/pay/i/{}", invoice.page_token))),
            metadata: invoice.metadata.as_ref(),
            external_id: invoice.external_id.as_ref(),
        }
    }
}

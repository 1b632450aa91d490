//! An invoice as the API answers it and as events carry it.

use serde::Serialize;
use utoipa::ToSchema;

use super::{Invoice, Item, Number, Status};
use crate::accounts::Mode;
use crate::calendar::PaymentTerms;
use crate::id::{CustomerId, InvoiceId, PaymentId, RecurringInvoiceId, SubscriptionId};
use crate::money::{Currency, MAX_AMOUNT};
use crate::time::Timestamp;
use crate::{public_url, schema};

/// The public JSON of an invoice.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Invoice, description = "What a customer owes. Optional fields are there where they apply.")]
pub struct InvoiceView<'a> {
    /// Its id.
    pub id: InvoiceId,
    #[schema(schema_with = schema::invoice)]
    object: &'static str,
    livemode: bool,
    created_at: Timestamp,
    /// Who owes it.
    customer_id: CustomerId,
    /// Where it stands.
    #[schema(schema_with = statuses)]
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Given when it is issued; an account's numbers run without gaps.
    number: Option<Number>,
    currency: Currency,
    /// What is owed in all.
    #[schema(schema_with = amount)]
    amount: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Tax within `amount`, as sent.
    #[schema(schema_with = schema::amount)]
    amount_tax: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// What was taken off, as sent.
    #[schema(schema_with = schema::amount)]
    amount_discount: Option<i64>,
    /// What was paid.
    #[schema(schema_with = schema::amount)]
    amount_paid: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    /// In the order sent; empty where only an amount was.
    items: &'a [Item],
    #[serde(skip_serializing_if = "Option::is_none")]
    /// What `dueAt` is reckoned from, unless it was sent.
    #[schema(schema_with = terms)]
    payment_terms: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    issued_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    due_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// When it is to be collected.
    collect_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// When the next attempt to collect it is due.
    next_attempt_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    paid_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// What paid it.
    payment_id: Option<PaymentId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    recurring_invoice_id: Option<RecurringInvoiceId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subscription_id: Option<SubscriptionId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The cycle that it is for.
    billing_period: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// True once the last retry to collect it has failed.
    collection_exhausted: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    voided_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Once issued: where it is shown and paid, a page of this service that is safe to give to a cardholder.
    #[schema(schema_with = schema::page)]
    url: Option<String>,
}

fn amount() -> schema::Field {
    schema::whole(1, MAX_AMOUNT).into()
}

fn statuses() -> schema::Field {
    schema::word(Status::ALL.map(Status::name)).into()
}

fn terms() -> schema::Field {
    schema::word(PaymentTerms::ALL.map(PaymentTerms::name)).into()
}

impl<'a> InvoiceView<'a> {
    /// Renders an invoice.
    pub fn new(invoice: &'a Invoice) -> Self {
        Self {
            id: invoice.id,
            object: "invoice",
            livemode: invoice.mode == Mode::Live,
            created_at: invoice.created_at,
            customer_id: invoice.customer_id,
            status: invoice.status.name(),
            number: invoice.number,
            currency: invoice.currency,
            amount: invoice.amount,
            amount_tax: invoice.amount_tax,
            amount_discount: invoice.amount_discount,
            amount_paid: invoice.amount_paid,
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
        }
    }
}

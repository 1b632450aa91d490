//! /v1/invoices

use axum::extract::State;
use domain::invoices::{self, Bill, Due, InvoiceView, Item, NewInvoice};
use foundation::calendar::PaymentTerms;
use foundation::error::Error;
use foundation::id::{CustomerId, InvoiceId, PaymentMethodId};
use serde::Deserialize;
use utoipa::ToSchema;

use super::merchant_data::MerchantDataFields;
use crate::app::App;
use crate::body::{
    Amount, Body, CurrencyCode, ExternalId, Instant, Metadata, Nested, NonNegativeAmount, Quantity, Reference, Terms,
    Text, merchant_data, optional_list, required,
};
use crate::error::{ApiResult, created, ok};
use crate::guard::Authenticated;
use crate::path::Path;
use crate::replays::{IdempotentCreate, respond};
use crate::trusted::ExpectedVersion;

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InvoiceFields {
    /// The customer to bill.
    customer_id: Option<Reference>,
    /// ISO 4217, case-insensitive.
    currency: Option<CurrencyCode>,
    /// Shown to the customer.
    description: Option<Text>,
    /// The total, in the currency's minor unit. Required without `items`; with `items` it is optional and must equal their total.
    amount: Option<Amount>,
    /// The line items, 1 to 100.
    #[serde(default, deserialize_with = "optional_list")]
    #[schema(value_type = Option<Vec<ItemFields>>, min_items = 1, max_items = 100)]
    items: Option<Vec<Nested<ItemFields>>>,
    /// Tax, in the currency's minor unit: added to the items. Requires `items`.
    amount_tax: Option<NonNegativeAmount>,
    /// Discount, in the currency's minor unit: subtracted from the items. Requires `items`.
    amount_discount: Option<NonNegativeAmount>,
    /// The due date, which may be in the past.
    due_at: Option<Instant>,
    /// The time from issue to the due date, instead of `dueAt`. `due_on_receipt` if neither is sent.
    payment_terms: Option<Terms>,
    /// Your own data, copied to its payments.
    metadata: Option<Metadata>,
    /// Your own id. It need not be unique.
    external_id: Option<ExternalId>,
}

/// A line item of an invoice. Every field is required.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ItemFields {
    /// What is billed.
    #[schema(value_type = Text)]
    description: Option<Text>,
    /// How many are billed.
    #[schema(value_type = Quantity)]
    quantity: Option<Quantity>,
    /// The price of one, in the currency's minor unit.
    #[schema(value_type = NonNegativeAmount)]
    unit_amount: Option<NonNegativeAmount>,
}

impl ItemFields {
    /// Converts the line item at `path`, such as `items[2]`.
    fn into_item(self, path: &str) -> Result<Item, Error> {
        let missing = |name: &str| {
            let param = format!("{path}.{name}");
            let message = format!("{param} is required");
            Error::invalid(param, message)
        };
        let Self { description, quantity, unit_amount } = self;
        Ok(Item {
            description: description.ok_or_else(|| missing("description"))?.0,
            quantity: quantity.ok_or_else(|| missing("quantity"))?.0,
            unit_amount: unit_amount.ok_or_else(|| missing("unitAmount"))?.0,
        })
    }
}

/// Converts the line items of the list at `path`.
pub(super) fn items(path: &str, items: Vec<Nested<ItemFields>>) -> Result<Vec<Item>, Error> {
    items.into_iter().enumerate().map(|(i, Nested(item))| item.into_item(&format!("{path}[{i}]"))).collect()
}

fn due(at: Option<Instant>, terms: Option<Terms>) -> Result<Due, Error> {
    match (at, terms) {
        (Some(_), Some(_)) => Err(Error::invalid("paymentTerms", "paymentTerms must not be sent with dueAt")),
        (Some(at), None) => Ok(Due::At(at.0)),
        (None, terms) => Ok(Due::Terms(terms.map_or(PaymentTerms::DueOnReceipt, |terms| terms.0))),
    }
}

pub(super) async fn create(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    idempotent: IdempotentCreate,
    Body { fields, .. }: Body<InvoiceFields>,
) -> ApiResult {
    let customer = required("customerId", fields.customer_id)?.0;
    let currency = required("currency", fields.currency)?.0;
    let items = fields.items.map(|sent| items("items", sent)).transpose()?;
    let (tax, discount) = (fields.amount_tax.map(|tax| tax.0), fields.amount_discount.map(|discount| discount.0));
    let new = NewInvoice {
        currency,
        description: fields.description.map(|text| text.0),
        bill: Bill::new(fields.amount.map(|amount| amount.0), items, tax, discount)?,
        due: due(fields.due_at, fields.payment_terms)?,
        // Parsed last: errors in the other fields take precedence over an unknown customer.
        customer_id: CustomerId::from_request(&customer)?,
        cycle: None,
        merchant_data: merchant_data(fields.metadata, fields.external_id)?,
    };
    let creation = engine::create_invoice(&app.db, &caller, new, idempotent.key(), app.now(&caller).await?).await?;
    respond(&app, creation, |invoice| created(InvoiceView::new(invoice)))
}

pub(super) async fn retrieve(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> ApiResult {
    let invoice = invoices::retrieve(&*app.db, caller.account_id, InvoiceId::from_request(&id)?).await?;
    Ok(ok(InvoiceView::new(&invoice)))
}

pub(super) async fn issue(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> ApiResult {
    let invoice =
        invoices::issue_draft(&app.db, caller.account_id, InvoiceId::from_request(&id)?, app.now(&caller).await?)
            .await?;
    Ok(ok(InvoiceView::new(&invoice)))
}

pub(super) async fn void(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> ApiResult {
    let invoice =
        engine::void_invoice(&app.db, &caller, InvoiceId::from_request(&id)?, app.now(&caller).await?).await?;
    Ok(ok(InvoiceView::new(&invoice)))
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ScheduleFields {
    /// When to charge it. A time in the past means now.
    collect_at: Option<Instant>,
    /// The customer's card to charge; by default the one that is the default card at that time.
    payment_method_id: Option<Reference>,
}

pub(super) async fn schedule(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    Body { fields, .. }: Body<ScheduleFields>,
) -> ApiResult {
    let collect_at = required("collectAt", fields.collect_at)?.0;
    let id = InvoiceId::from_request(&id)?;
    let card = fields.payment_method_id.map(|card| PaymentMethodId::from_request(&card.0));
    let now = app.now(&caller).await?;
    let invoice = engine::schedule_invoice(&app.db, &caller, id, collect_at, card.transpose()?, now).await?;
    Ok(ok(InvoiceView::new(&invoice)))
}

pub(super) async fn cancel_schedule(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> ApiResult {
    let id = InvoiceId::from_request(&id)?;
    let invoice = engine::cancel_schedule(&app.db, &caller, id, app.now(&caller).await?).await?;
    Ok(ok(InvoiceView::new(&invoice)))
}

pub(super) async fn update(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    expected: ExpectedVersion,
    Path(id): Path<String>,
    Body { fields, .. }: Body<MerchantDataFields>,
) -> ApiResult {
    let (id, change) = (InvoiceId::from_request(&id)?, fields.into_change_of(expected));
    let updated = invoices::update(&app.db, caller.account_id, id, change).await?;
    Ok(ok(InvoiceView::new(&updated)))
}

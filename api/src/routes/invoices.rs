//! /v1/invoices

use axum::extract::State;
use common::calendar::PaymentTerms;
use common::error::Error;
use common::flows;
use common::id::{CustomerId, InvoiceId, PaymentMethodId};
use common::invoices::{self, AttemptView, Bill, Due, InvoiceView, Item, NewInvoice};
use common::page::ListView;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::answer::{Answer, created, ok};
use crate::app::App;
use crate::body::{Amount, Body, CurrencyCode, Instant, Part, Quantity, Reference, Row, Terms, Text, required, rows};
use crate::guard::Authenticated;
use crate::idempotency::{Once, answer};
use crate::path::Path;
use crate::query::Params;

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InvoiceFields {
    /// Who is to owe it.
    customer_id: Option<Reference>,
    /// ISO 4217, in any case.
    currency: Option<CurrencyCode>,
    /// What it is for.
    description: Option<Text>,
    /// What is owed in all. Required without `items`; with them it may be left out, and must be what they come to.
    amount: Option<Amount>,
    /// What it adds up, 1 to 100 rows.
    #[serde(default, deserialize_with = "rows")]
    #[schema(value_type = Option<Vec<ItemFields>>, min_items = 1, max_items = 100)]
    items: Option<Vec<Row<ItemFields>>>,
    /// Added to the items; needs them.
    amount_tax: Option<Part>,
    /// Taken off the items; needs them.
    amount_discount: Option<Part>,
    /// When it falls due; it may lie in the past.
    due_at: Option<Instant>,
    /// Or how long after its issue, `due_on_receipt` if neither is said. Not both.
    payment_terms: Option<Terms>,
}

/// A row of an invoice. Each of its fields is required.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ItemFields {
    /// What it is for.
    #[schema(value_type = Text)]
    description: Option<Text>,
    /// How many.
    #[schema(value_type = Quantity)]
    quantity: Option<Quantity>,
    /// Each, in the currency's minor unit.
    #[schema(value_type = Part)]
    unit_amount: Option<Part>,
}

impl Row<ItemFields> {
    /// The row that stands at `place`, such as `items[2]`.
    fn into_item(self, place: &str) -> Result<Item, Error> {
        let missing = |name: &str| {
            let param = format!("{place}.{name}");
            let message = format!("{param} is required");
            Error::invalid(param, message)
        };
        let Self(ItemFields { description, quantity, unit_amount }) = self;
        Ok(Item {
            description: description.ok_or_else(|| missing("description"))?.0,
            quantity: quantity.ok_or_else(|| missing("quantity"))?.0,
            unit_amount: unit_amount.ok_or_else(|| missing("unitAmount"))?.0,
        })
    }
}

/// The rows of a list that stands at `place`.
pub(super) fn items(place: &str, rows: Vec<Row<ItemFields>>) -> Result<Vec<Item>, Error> {
    rows.into_iter().enumerate().map(|(i, row)| row.into_item(&format!("{place}[{i}]"))).collect()
}

fn due(at: Option<Instant>, terms: Option<Terms>) -> Result<Due, Error> {
    match (at, terms) {
        (Some(_), Some(_)) => Err(Error::invalid("paymentTerms", "send dueAt or paymentTerms, not both")),
        (Some(at), None) => Ok(Due::At(at.0)),
        (None, terms) => Ok(Due::Terms(terms.map_or(PaymentTerms::DueOnReceipt, |terms| terms.0))),
    }
}

pub(super) async fn create(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    once: Once,
    Body { fields, .. }: Body<InvoiceFields>,
) -> Answer {
    let customer = required("customerId", fields.customer_id)?.0;
    let currency = required("currency", fields.currency)?.0;
    let items = fields.items.map(|rows| items("items", rows)).transpose()?;
    let (tax, discount) = (fields.amount_tax.map(|part| part.0), fields.amount_discount.map(|part| part.0));
    let new = NewInvoice {
        currency,
        description: fields.description.map(|text| text.0),
        bill: Bill::new(fields.amount.map(|amount| amount.0), items, tax, discount)?,
        due: due(fields.due_at, fields.payment_terms)?,
        // Whom it names comes after what it says.
        customer_id: CustomerId::named(&customer)?,
        cycle: None,
    };
    let made = flows::create_invoice(&app.db, &caller, new, once.key(), app.now(&caller).await?).await?;
    answer(&app, made, |invoice| created(InvoiceView::new(invoice)))
}

pub(super) async fn retrieve(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Answer {
    let invoice = invoices::retrieve(&*app.db, caller.account_id, InvoiceId::named(&id)?).await?;
    Ok(ok(InvoiceView::new(&invoice)))
}

pub(super) async fn issue(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Answer {
    let invoice =
        invoices::issue_draft(&app.db, caller.account_id, InvoiceId::named(&id)?, app.now(&caller).await?).await?;
    Ok(ok(InvoiceView::new(&invoice)))
}

pub(super) async fn void(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Answer {
    let invoice = flows::void_invoice(&app.db, &caller, InvoiceId::named(&id)?, app.now(&caller).await?).await?;
    Ok(ok(InvoiceView::new(&invoice)))
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ScheduleFields {
    /// When it is to be collected. What lies in the past is due at once.
    collect_at: Option<Instant>,
    /// With which card of its customer; with the one that is the default by then, if not said.
    payment_method_id: Option<Reference>,
}

pub(super) async fn schedule(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    Body { fields, .. }: Body<ScheduleFields>,
) -> Answer {
    let collect_at = required("collectAt", fields.collect_at)?.0;
    let id = InvoiceId::named(&id)?;
    let card = fields.payment_method_id.map(|card| PaymentMethodId::named(&card.0));
    let now = app.now(&caller).await?;
    let invoice = flows::schedule_invoice(&app.db, &caller, id, collect_at, card.transpose()?, now).await?;
    Ok(ok(InvoiceView::new(&invoice)))
}

pub(super) async fn cancel_schedule(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Answer {
    let invoice = flows::cancel_schedule(&app.db, &caller, InvoiceId::named(&id)?).await?;
    Ok(ok(InvoiceView::new(&invoice)))
}

pub(super) async fn attempts(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    params: Params,
) -> Answer {
    let (page, id) = (params.page()?, InvoiceId::named(&id)?);
    let rows = invoices::attempts::list(&app.db, caller.account_id, id, page).await?;
    let views = rows.views(AttemptView::new);
    Ok(ok(ListView::new(views, |view| view.id.to_string())))
}

pub(super) async fn list(State(app): State<App>, Authenticated(caller): Authenticated, params: Params) -> Answer {
    let rows = invoices::list(&app.db, caller.account_id, params.page()?).await?;
    let views = rows.views(InvoiceView::new);
    Ok(ok(ListView::new(views, |view| view.id.to_string())))
}

//! /v1/recurring_invoices

use axum::extract::State;
use common::calendar::PaymentTerms;
use common::error::Error;
use common::flows;
use common::id::RecurringInvoiceId;
use common::page::ListView;
use common::recurring_invoices::{
    self, IssueMode, NewRecurringInvoice, RecurringInvoiceChange, RecurringInvoiceView, SentCadence, Template,
};
use serde::Deserialize;
use utoipa::ToSchema;

use super::invoices::{ItemFields, items};
use crate::answer::{Answer, created, ok};
use crate::app::App;
use crate::body::{
    Body, CadenceInterval, CadenceUnit, CurrencyCode, Day, DayOfMonth, Flag, InvoiceMode, Part, Reference, Row, Terms,
    Text, required, rows,
};
use crate::guard::Authenticated;
use crate::idempotency::{Once, answer};
use crate::path::Path;
use crate::query::Params;

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RecurringInvoiceFields {
    /// Who is to owe the invoices, for good: an update may repeat it, and not change it.
    customer_id: Option<Reference>,
    /// What you call it.
    name: Option<Text>,
    /// How often, and on which day.
    #[schema(value_type = Option<CadenceFields>)]
    cadence: Option<Row<CadenceFields>>,
    /// The last day of each month. Of `monthly` and `yearly` alone, and not with `cadence.dayOfMonth`.
    last_day_of_month: Option<Flag>,
    /// The dates are counted from the first day on or after it that matches; today if none is said.
    start_date: Option<Day>,
    /// The last day on which an invoice may be produced.
    end_date: Option<Day>,
    /// What becomes of each invoice: it is issued, or stays a draft. `auto_send` if not said.
    mode: Option<InvoiceMode>,
    /// What each invoice is made of.
    #[schema(value_type = Option<TemplateFields>)]
    template: Option<Row<TemplateFields>>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CadenceFields {
    #[schema(value_type = CadenceUnit)]
    unit: Option<CadenceUnit>,
    /// How many units lie between two invoices, 1 if not said.
    interval: Option<CadenceInterval>,
    /// Of `monthly` and `yearly` alone, the day of the start if not said. A month that has fewer days gives its last.
    day_of_month: Option<DayOfMonth>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TemplateFields {
    /// ISO 4217, in any case.
    #[schema(value_type = CurrencyCode)]
    currency: Option<CurrencyCode>,
    /// How long after its issue each invoice falls due, `due_on_receipt` if not said.
    payment_terms: Option<Terms>,
    /// What each invoice is for.
    description: Option<Text>,
    /// What each invoice adds up, 1 to 100 rows.
    #[serde(default, deserialize_with = "rows")]
    #[schema(value_type = Vec<ItemFields>, required = true, min_items = 1, max_items = 100)]
    items: Option<Vec<Row<ItemFields>>>,
    /// Added to the items.
    amount_tax: Option<Part>,
    /// Taken off the items.
    amount_discount: Option<Part>,
}

impl Row<CadenceFields> {
    fn into_cadence(self) -> Result<SentCadence, Error> {
        let Self(CadenceFields { unit, interval, day_of_month }) = self;
        Ok(SentCadence {
            unit: required("cadence.unit", unit)?.0,
            interval: interval.map_or(1, |interval| interval.0),
            day_of_month: day_of_month.map(|day| day.0),
        })
    }
}

impl Row<TemplateFields> {
    fn into_template(self) -> Result<Template, Error> {
        let fields = self.0;
        let currency = required("template.currency", fields.currency)?.0;
        let items = items("template.items", required("template.items", fields.items)?)?;
        let (tax, discount) = (fields.amount_tax.map(|part| part.0), fields.amount_discount.map(|part| part.0));
        Ok(Template {
            currency,
            payment_terms: fields.payment_terms.map_or(PaymentTerms::DueOnReceipt, |terms| terms.0),
            description: fields.description.map(|text| text.0),
            bill: Template::bill(items, tax, discount)?,
        })
    }
}

impl RecurringInvoiceFields {
    fn into_change(self) -> Result<RecurringInvoiceChange, Error> {
        Ok(RecurringInvoiceChange {
            customer_id: self.customer_id.map(|id| id.0),
            name: self.name.map(|name| name.0),
            cadence: self.cadence.map(Row::<CadenceFields>::into_cadence).transpose()?,
            last_day_of_month: self.last_day_of_month.map(|flag| flag.0),
            start_date: self.start_date.map(|day| day.0),
            end_date: self.end_date.map(|day| day.0),
            issue_mode: self.mode.map(|mode| mode.0),
            template: self.template.map(Row::<TemplateFields>::into_template).transpose()?,
        })
    }
}

pub(super) async fn create(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    once: Once,
    Body { fields, .. }: Body<RecurringInvoiceFields>,
) -> Answer {
    let sent = fields.into_change()?;
    let cadence = required("cadence", sent.cadence)?;
    let new = NewRecurringInvoice {
        customer_id: required("customerId", sent.customer_id)?,
        name: sent.name,
        cadence: cadence.with(sent.last_day_of_month.unwrap_or(false))?,
        start_date: sent.start_date,
        end_date: sent.end_date,
        issue_mode: sent.issue_mode.unwrap_or(IssueMode::AutoSend),
        template: required("template", sent.template)?,
    };
    let made = flows::create_recurring_invoice(&app.db, &caller, new, once.key(), app.now(&caller).await?).await?;
    answer(&app, made, |recurring| created(RecurringInvoiceView::new(recurring)))
}

pub(super) async fn retrieve(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Answer {
    let recurring = recurring_invoices::retrieve(&app.db, caller.account_id, RecurringInvoiceId::named(&id)?).await?;
    Ok(ok(RecurringInvoiceView::new(&recurring)))
}

pub(super) async fn list(State(app): State<App>, Authenticated(caller): Authenticated, params: Params) -> Answer {
    let rows = recurring_invoices::list(&app.db, caller.account_id, params.page()?).await?;
    let views = rows.views(RecurringInvoiceView::new);
    Ok(ok(ListView::new(views, |view| view.id.to_string())))
}

pub(super) async fn update(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    Body { fields, .. }: Body<RecurringInvoiceFields>,
) -> Answer {
    let (change, now) = (fields.into_change()?, app.now(&caller).await?);
    let id = RecurringInvoiceId::named(&id)?;
    let recurring = flows::update_recurring_invoice(&app.db, &caller, id, change, now).await?;
    Ok(ok(RecurringInvoiceView::new(&recurring)))
}

pub(super) async fn pause(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Answer {
    let id = RecurringInvoiceId::named(&id)?;
    let recurring = recurring_invoices::pause(&app.db, caller.account_id, id, app.now(&caller).await?).await?;
    Ok(ok(RecurringInvoiceView::new(&recurring)))
}

pub(super) async fn resume(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Answer {
    let id = RecurringInvoiceId::named(&id)?;
    let recurring = flows::resume_recurring_invoice(&app.db, &caller, id, app.now(&caller).await?).await?;
    Ok(ok(RecurringInvoiceView::new(&recurring)))
}

pub(super) async fn cancel(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Answer {
    let id = RecurringInvoiceId::named(&id)?;
    let recurring = recurring_invoices::cancel(&app.db, caller.account_id, id, app.now(&caller).await?).await?;
    Ok(ok(RecurringInvoiceView::new(&recurring)))
}

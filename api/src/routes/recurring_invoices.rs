//! /v1/recurring_invoices

use axum::extract::State;
use domain::recurring_invoices::{
    self, IssueMode, NewRecurringInvoice, RecurringInvoiceChange, RecurringInvoiceView, SentCadence, Template,
};
use foundation::calendar::PaymentTerms;
use foundation::error::Error;
use foundation::id::RecurringInvoiceId;
use foundation::merchant_data::{MerchantData, MerchantDataChange};
use serde::Deserialize;
use utoipa::ToSchema;

use super::invoices::{ItemFields, items};
use crate::app::App;
use crate::body::{
    Body, CadenceInterval, CadenceUnit, CurrencyCode, Day, DayOfMonth, ExternalId, Flag, InvoiceMode, Metadata, Nested,
    NonNegativeAmount, Reference, Terms, Text, nullable, optional_list, required,
};
use crate::error::{ApiResult, created, ok};
use crate::guard::Authenticated;
use crate::path::Path;
use crate::replays::{IdempotentCreate, respond};

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RecurringInvoiceFields {
    /// The customer to bill. It cannot be changed: an update may only repeat it.
    customer_id: Option<Reference>,
    /// Your own name for it.
    name: Option<Text>,
    /// How often and on which day.
    #[schema(value_type = Option<CadenceFields>)]
    cadence: Option<Nested<CadenceFields>>,
    /// Use the last day of the month. Only with `monthly` and `yearly`, and not with `cadence.dayOfMonth`.
    #[schema(default = false)]
    last_day_of_month: Option<Flag>,
    /// The first invoice is produced on the first matching day on or after this one; today by default.
    start_date: Option<Day>,
    /// The last day on which an invoice may be produced.
    end_date: Option<Day>,
    /// Whether each invoice is issued or stays a draft.
    #[schema(default = "auto_send")]
    mode: Option<InvoiceMode>,
    /// The content of each invoice.
    #[schema(value_type = Option<TemplateFields>)]
    template: Option<Nested<TemplateFields>>,
    /// Your own data, copied to its invoices and their payments. In an update: pairs to set; `null` removes a pair, and the
    /// others stay.
    metadata: Option<Metadata>,
    /// Your own id. It need not be unique; `null` clears it.
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<ExternalId>)]
    external_id: Option<Option<ExternalId>>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CadenceFields {
    /// The unit of the time between two invoices.
    #[schema(value_type = CadenceUnit)]
    unit: Option<CadenceUnit>,
    /// The number of units between two invoices.
    #[schema(default = 1)]
    interval: Option<CadenceInterval>,
    /// Only with `monthly` and `yearly`; the day of `startDate` by default. In a shorter month, its last day.
    day_of_month: Option<DayOfMonth>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TemplateFields {
    /// ISO 4217, case-insensitive.
    #[schema(value_type = CurrencyCode)]
    currency: Option<CurrencyCode>,
    /// The time from issue to the due date.
    #[schema(default = "due_on_receipt")]
    payment_terms: Option<Terms>,
    /// Shown to the customer on each invoice.
    description: Option<Text>,
    /// The line items of each invoice, 1 to 100.
    #[serde(default, deserialize_with = "optional_list")]
    #[schema(value_type = Vec<ItemFields>, required = true, min_items = 1, max_items = 100)]
    items: Option<Vec<Nested<ItemFields>>>,
    /// Tax, in the currency's minor unit: added to the items.
    amount_tax: Option<NonNegativeAmount>,
    /// Discount, in the currency's minor unit: subtracted from the items.
    amount_discount: Option<NonNegativeAmount>,
}

impl CadenceFields {
    fn into_cadence(self) -> Result<SentCadence, Error> {
        let Self { unit, interval, day_of_month } = self;
        Ok(SentCadence {
            unit: required("cadence.unit", unit)?.0,
            interval: interval.map_or(1, |interval| interval.0),
            day_of_month: day_of_month.map(|day| day.0),
        })
    }
}

impl TemplateFields {
    fn into_template(self) -> Result<Template, Error> {
        let currency = required("template.currency", self.currency)?.0;
        let items = items("template.items", required("template.items", self.items)?)?;
        let (tax, discount) = (self.amount_tax.map(|tax| tax.0), self.amount_discount.map(|discount| discount.0));
        Ok(Template {
            currency,
            payment_terms: self.payment_terms.map_or(PaymentTerms::DueOnReceipt, |terms| terms.0),
            description: self.description.map(|text| text.0),
            bill: Template::bill(items, tax, discount)?,
        })
    }
}

impl RecurringInvoiceFields {
    fn into_change(self) -> Result<RecurringInvoiceChange, Error> {
        Ok(RecurringInvoiceChange {
            customer_id: self.customer_id.map(|id| id.0),
            name: self.name.map(|name| name.0),
            cadence: self.cadence.map(|cadence| cadence.0.into_cadence()).transpose()?,
            last_day_of_month: self.last_day_of_month.map(|flag| flag.0),
            start_date: self.start_date.map(|day| day.0),
            end_date: self.end_date.map(|day| day.0),
            issue_mode: self.mode.map(|mode| mode.0),
            template: self.template.map(|template| template.0.into_template()).transpose()?,
            merchant_data: MerchantDataChange {
                metadata: self.metadata.map(|metadata| metadata.0),
                external_id: self.external_id.map(|id| id.map(|id| id.0)),
                expected_version: None,
            },
        })
    }
}

pub(super) async fn create(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    idempotent: IdempotentCreate,
    Body { fields, .. }: Body<RecurringInvoiceFields>,
) -> ApiResult {
    let fields = fields.into_change()?;
    let cadence = required("cadence", fields.cadence)?;
    let new = NewRecurringInvoice {
        customer_id: required("customerId", fields.customer_id)?,
        name: fields.name,
        cadence: cadence.with(fields.last_day_of_month.unwrap_or(false))?,
        start_date: fields.start_date,
        end_date: fields.end_date,
        issue_mode: fields.issue_mode.unwrap_or(IssueMode::AutoSend),
        template: required("template", fields.template)?,
        merchant_data: fields.merchant_data.apply(MerchantData::default(), 0)?,
    };
    let now = app.now(&caller).await?;
    let creation = engine::create_recurring_invoice(&app.db, &caller, new, idempotent.key(), now).await?;
    respond(&app, creation, |recurring| created(RecurringInvoiceView::new(recurring)))
}

pub(super) async fn retrieve(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> ApiResult {
    let recurring =
        recurring_invoices::retrieve(&app.db, caller.account_id, RecurringInvoiceId::from_request(&id)?).await?;
    Ok(ok(RecurringInvoiceView::new(&recurring)))
}

pub(super) async fn update(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    Body { fields, .. }: Body<RecurringInvoiceFields>,
) -> ApiResult {
    let (change, now) = (fields.into_change()?, app.now(&caller).await?);
    let id = RecurringInvoiceId::from_request(&id)?;
    let recurring = engine::update_recurring_invoice(&app.db, &caller, id, change, now).await?;
    Ok(ok(RecurringInvoiceView::new(&recurring)))
}

pub(super) async fn pause(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> ApiResult {
    let id = RecurringInvoiceId::from_request(&id)?;
    let recurring = recurring_invoices::pause(&app.db, caller.account_id, id, app.now(&caller).await?).await?;
    Ok(ok(RecurringInvoiceView::new(&recurring)))
}

pub(super) async fn resume(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> ApiResult {
    let id = RecurringInvoiceId::from_request(&id)?;
    let recurring = engine::resume_recurring_invoice(&app.db, &caller, id, app.now(&caller).await?).await?;
    Ok(ok(RecurringInvoiceView::new(&recurring)))
}

pub(super) async fn cancel(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> ApiResult {
    let id = RecurringInvoiceId::from_request(&id)?;
    let recurring = recurring_invoices::cancel(&app.db, caller.account_id, id, app.now(&caller).await?).await?;
    Ok(ok(RecurringInvoiceView::new(&recurring)))
}

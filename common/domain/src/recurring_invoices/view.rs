//! The JSON of a recurring invoice in API responses and events.

use serde::Serialize;
use utoipa::ToSchema;

use super::recurring_invoice::{IssueMode, RecurringInvoice};
use super::status::Status;
use super::template::TemplateView;
use crate::accounts::Mode;
use foundation::calendar::{Cadence, Date, MAX_INTERVAL, Unit};
use foundation::id::{CustomerId, RecurringInvoiceId};
use foundation::money::MAX_AMOUNT;
use foundation::own_data::{ExternalId, Metadata};
use foundation::schema;
use foundation::time::Timestamp;

/// A recurring invoice in the API.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RecurringInvoice, description = "Creates invoices on the dates of a cadence.")]
pub struct RecurringInvoiceView<'a> {
    pub id: RecurringInvoiceId,
    #[schema(schema_with = schema::recurring_invoice)]
    object: &'static str,
    livemode: bool,
    created_at: Timestamp,
    /// Rises with each change.
    #[schema(schema_with = schema::version)]
    version: i64,
    /// The customer to bill.
    customer_id: CustomerId,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[schema(schema_with = statuses)]
    status: &'static str,
    cadence: CadenceView,
    /// Whether invoices are created on the last day of the month.
    last_day_of_month: bool,
    /// As sent, or the day of creation.
    start_date: Date,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The last day on which an invoice may be created.
    end_date: Option<Date>,
    /// Whether invoices are issued immediately or stay drafts.
    #[schema(schema_with = modes)]
    mode: &'static str,
    template: TemplateView<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The date of the next invoice, in the account's time zone. Present while `active`.
    next_invoice_date: Option<Date>,
    /// Invoices created so far, including drafts.
    #[schema(schema_with = count)]
    occurrence_count: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Your own data.
    metadata: Option<&'a Metadata>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Your own id.
    external_id: Option<&'a ExternalId>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Cadence, description = "How often and on which day invoices are created.")]
struct CadenceView {
    #[schema(schema_with = units)]
    unit: &'static str,
    /// The number of units between two invoices.
    #[schema(schema_with = interval)]
    interval: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// As sent. A shorter month uses its last day.
    #[schema(schema_with = day_of_month)]
    day_of_month: Option<i8>,
}

fn statuses() -> schema::Field {
    schema::enumeration(Status::ALL.map(Status::name)).into()
}

fn modes() -> schema::Field {
    schema::enumeration(IssueMode::ALL.map(IssueMode::name)).into()
}

fn count() -> schema::Field {
    schema::integer(0, MAX_AMOUNT).into()
}

fn units() -> schema::Field {
    schema::enumeration(Unit::ALL.map(Cadence::unit_name)).into()
}

fn interval() -> schema::Field {
    schema::integer(1, MAX_INTERVAL.into()).into()
}

fn day_of_month() -> schema::Field {
    schema::integer(1, 31).into()
}

impl<'a> RecurringInvoiceView<'a> {
    pub fn new(recurring: &'a RecurringInvoice) -> Self {
        let cadence = &recurring.cadence;
        Self {
            id: recurring.id,
            object: "recurring_invoice",
            livemode: recurring.mode == Mode::Live,
            created_at: recurring.created_at,
            version: recurring.version,
            customer_id: recurring.customer_id,
            name: recurring.name.as_deref(),
            status: recurring.status.name(),
            cadence: CadenceView {
                unit: Cadence::unit_name(cadence.unit()),
                interval: cadence.interval(),
                day_of_month: cadence.day_of_month(),
            },
            last_day_of_month: cadence.last_day_of_month(),
            start_date: recurring.start_date,
            end_date: recurring.end_date,
            mode: recurring.issue_mode.name(),
            template: TemplateView::new(&recurring.template),
            next_invoice_date: recurring.next.map(|next| next.date),
            occurrence_count: recurring.occurrence_count,
            metadata: recurring.metadata.as_ref(),
            external_id: recurring.external_id.as_ref(),
        }
    }
}

//! The JSON of a recurring invoice in API responses and events.

use serde::Serialize;
use utoipa::ToSchema;

use super::recurring_invoice::{IssueMode, RecurringInvoice};
use super::status::Status;
use super::template::TemplateView;
use crate::accounts::Mode;
use foundation::calendar::{Cadence, Date, MAX_INTERVAL, Unit};
use foundation::id::{CustomerId, RecurringInvoiceId};
use foundation::merchant_data::{ExternalId, Metadata};
use foundation::money::MAX_AMOUNT;
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
    #[schema(schema_with = schema::version)]
    version: i64,
    /// The customer to bill.
    customer_id: CustomerId,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Your own name for it.
    name: Option<&'a str>,
    /// - `active`: it has a next date.
    /// - `paused`: a request stopped it.
    /// - `parked`: the service stopped it, after three failed attempts to create an invoice.
    /// - `completed`: no date is left.
    /// - `cancelled`: a request ended it. Final.
    #[schema(value_type = Status)]
    status: &'static str,
    /// How often and on which day invoices are created.
    cadence: CadenceView,
    /// Whether invoices are created on the last day of the month.
    last_day_of_month: bool,
    /// As sent, or the day of creation.
    start_date: Date,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The last day on which an invoice may be created.
    end_date: Option<Date>,
    /// Whether each invoice is issued as soon as it is created (`auto_send`) or stays a draft (`draft_for_review`).
    #[schema(value_type = IssueMode)]
    mode: &'static str,
    /// The content of each invoice.
    template: TemplateView<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The date of the next invoice, in the account's time zone. Present while `active`.
    next_invoice_date: Option<Date>,
    /// Invoices created so far, including drafts.
    #[schema(value_type = Count)]
    occurrence_count: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a Metadata>,
    #[serde(skip_serializing_if = "Option::is_none")]
    external_id: Option<&'a ExternalId>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Cadence, description = "How often and on which day invoices are created.")]
struct CadenceView {
    /// The unit of the time between two invoices.
    #[schema(value_type = UnitName)]
    unit: &'static str,
    /// The number of units between two invoices.
    #[schema(value_type = Interval)]
    interval: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// As sent. A shorter month uses its last day.
    #[schema(value_type = Option<DayOfMonth>)]
    day_of_month: Option<i8>,
}

schema::schema_is!(Status, schema::enumeration(Status::ALL.map(Status::name)));
schema::schema_is!(IssueMode, schema::enumeration(IssueMode::ALL.map(IssueMode::name)));
schema::field_types! {
    Count = schema::integer(0, MAX_AMOUNT);
    UnitName = schema::enumeration(Unit::ALL.map(Cadence::unit_name));
    Interval = schema::integer(1, MAX_INTERVAL.into());
    DayOfMonth = schema::integer(1, 31);
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

//! A recurring invoice as the API answers it and as events carry it.

use serde::Serialize;
use utoipa::ToSchema;

use super::template::TemplateView;
use super::{IssueMode, RecurringInvoice, Status};
use crate::accounts::Mode;
use crate::calendar::{Cadence, Date, MAX_INTERVAL, Unit};
use crate::id::{CustomerId, RecurringInvoiceId};
use crate::money::MAX_AMOUNT;
use crate::schema;
use crate::time::Timestamp;

/// The public JSON of a recurring invoice.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RecurringInvoice, description = "What produces an invoice again and again.")]
pub struct RecurringInvoiceView<'a> {
    /// Its id.
    pub id: RecurringInvoiceId,
    #[schema(schema_with = schema::recurring_invoice)]
    object: &'static str,
    livemode: bool,
    created_at: Timestamp,
    /// Who owes its invoices.
    customer_id: CustomerId,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    /// Where it stands.
    #[schema(schema_with = statuses)]
    status: &'static str,
    cadence: CadenceView,
    /// Whether the last day of the month was asked for.
    last_day_of_month: bool,
    /// As sent, or the day on which it was made.
    start_date: Date,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The last day on which an invoice may be produced.
    end_date: Option<Date>,
    /// What becomes of each invoice.
    #[schema(schema_with = modes)]
    mode: &'static str,
    template: TemplateView<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The date of the next invoice in the account's time zone; of an active one alone.
    next_invoice_date: Option<Date>,
    /// Invoices produced so far, drafts included.
    #[schema(schema_with = count)]
    occurrence_count: i64,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Cadence, description = "How often, and on which day.")]
struct CadenceView {
    #[schema(schema_with = units)]
    unit: &'static str,
    /// How many units lie between two invoices.
    #[schema(schema_with = interval)]
    interval: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// As asked for; a month that has fewer days gives its last.
    #[schema(schema_with = day_of_month)]
    day_of_month: Option<i8>,
}

fn statuses() -> schema::Field {
    schema::word(Status::ALL.map(Status::name)).into()
}

fn modes() -> schema::Field {
    schema::word(IssueMode::ALL.map(IssueMode::name)).into()
}

fn count() -> schema::Field {
    schema::whole(0, MAX_AMOUNT).into()
}

fn units() -> schema::Field {
    schema::word(Unit::ALL.map(Cadence::unit_name)).into()
}

fn interval() -> schema::Field {
    schema::whole(1, MAX_INTERVAL.into()).into()
}

fn day_of_month() -> schema::Field {
    schema::whole(1, 31).into()
}

impl<'a> RecurringInvoiceView<'a> {
    /// Renders a recurring invoice.
    pub fn new(recurring: &'a RecurringInvoice) -> Self {
        let cadence = &recurring.cadence;
        Self {
            id: recurring.id,
            object: "recurring_invoice",
            livemode: recurring.mode == Mode::Live,
            created_at: recurring.created_at,
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
        }
    }
}

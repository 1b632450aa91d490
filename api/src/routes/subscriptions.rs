//! /v1/subscriptions

use std::time::Duration;

use axum::extract::State;
use domain::idempotency::{CreationKey, CreationResult};
use domain::invoices::{self, Status as InvoiceStatus};
use domain::subscriptions::{self, NewSubscription, Status, Subscription, SubscriptionView};
use foundation::calendar::TimeZone;
use foundation::error::Error;
use foundation::id::{CustomerId, InvoiceId, PaymentMethodId, PlanId, SubscriptionId};
use serde::Deserialize;
use tokio::time::{Instant, sleep};
use utoipa::ToSchema;

use super::own_data::OwnDataFields;
use crate::app::App;
use crate::body::{Body, Day, Description, ExternalId, Metadata, Reference, Zone, own_data, required};
use crate::error::{ApiResult, created, ok};
use crate::guard::Authenticated;
use crate::idempotency::{IdempotentCreate, respond};
use crate::path::Path;
use crate::waiting::TIMEOUT;

/// The scheduler begins the collection within a second.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SubscriptionFields {
    /// The customer to bill.
    customer_id: Option<Reference>,
    /// The plan, which has the price and the billing interval.
    plan_id: Option<Reference>,
    /// The customer's card to charge. By default the one that is the default card when an invoice is collected.
    payment_method_id: Option<Reference>,
    /// The date from which the billing cycles are counted; today in `timezone` by default. It may be in the past.
    start_at: Option<Day>,
    /// The IANA name of the time zone in which days start.
    #[schema(default = "UTC")]
    timezone: Option<Zone>,
    /// Shown on its invoices instead of the plan's name.
    description: Option<Description>,
    /// Your own data, copied to its invoices and their payments.
    metadata: Option<Metadata>,
    /// Your own id. It need not be unique.
    external_id: Option<ExternalId>,
}

pub(super) async fn create(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    idempotent: IdempotentCreate,
    Body { fields, .. }: Body<SubscriptionFields>,
) -> ApiResult {
    let (customer, plan) = (required("customerId", fields.customer_id)?.0, required("planId", fields.plan_id)?.0);
    let new = NewSubscription {
        customer_id: CustomerId::from_request(&customer)?,
        plan_id: PlanId::from_request(&plan)?,
        payment_method_id: fields.payment_method_id.map(|card| PaymentMethodId::from_request(&card.0)).transpose()?,
        start_at: fields.start_at.map(|day| day.0),
        timezone: fields.timezone.map_or(TimeZone::UTC, |zone| zone.0),
        description: fields.description.map(|text| text.0),
        own: own_data(fields.metadata, fields.external_id)?,
    };
    let mut creation =
        engine::create_subscription(&app.db, &caller, &new, idempotent.key(), app.now(&caller).await?).await?;
    if let CreationResult::New(subscription) = &mut creation {
        wait_for_collection(&app, subscription, idempotent.key()).await;
    }
    respond(&app, creation, |subscription| created(SubscriptionView::new(subscription)))
}

/// Waits until the invoice of the first cycle, if it was billed, is paid or could not be collected. The subscription is
/// committed, so an error is only logged.
async fn wait_for_collection(app: &App, subscription: &mut Subscription, key: Option<&CreationKey>) {
    let Some(invoice) = subscription.latest_invoice_id else { return };
    let end = Instant::now() + TIMEOUT;
    while Instant::now() < end {
        sleep(POLL_INTERVAL).await;
        match collected(app, subscription, invoice).await {
            Ok(Some(collected)) => {
                *subscription = collected;
                break;
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, %invoice, "the first collection could not be read; retrying"),
        }
    }
    if let Some(key) = key
        && let Err(error) = key.replace_response(&app.db, &SubscriptionView::new(subscription)).await
    {
        tracing::warn!(%error, subscription = %subscription.id, "the response was not stored; a replay returns the former one");
    }
}

/// The subscription after the first attempt to collect the invoice; `None` before its outcome.
async fn collected(app: &App, created: &Subscription, invoice: InvoiceId) -> Result<Option<Subscription>, Error> {
    let invoice = invoices::retrieve(&*app.db, created.account_id, invoice).await?;
    let current = subscriptions::retrieve(&*app.db, created.account_id, created.id).await?;
    let is_waiting = invoice.status == InvoiceStatus::Scheduled && current.status == Status::Active;
    Ok((!is_waiting).then_some(current))
}

pub(super) async fn retrieve(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> ApiResult {
    let subscription = subscriptions::retrieve(&*app.db, caller.account_id, SubscriptionId::from_request(&id)?).await?;
    Ok(ok(SubscriptionView::new(&subscription)))
}

pub(super) async fn cancel(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> ApiResult {
    let id = SubscriptionId::from_request(&id)?;
    let subscription = engine::cancel_subscription(&app.db, &caller, id, app.now(&caller).await?).await?;
    Ok(ok(SubscriptionView::new(&subscription)))
}

pub(super) async fn update(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    Body { fields, .. }: Body<OwnDataFields>,
) -> ApiResult {
    let (id, change) = (SubscriptionId::from_request(&id)?, fields.into_change());
    let updated = subscriptions::update(&app.db, caller.account_id, id, change).await?;
    Ok(ok(SubscriptionView::new(&updated)))
}

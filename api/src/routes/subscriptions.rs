//! /v1/subscriptions

use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use domain::idempotency::{CreationKey, CreationResult, EarlierRequest, WAIT};
use domain::invoices::{self, Status as InvoiceStatus};
use domain::subscriptions::{self, NewSubscription, Status, Subscription, SubscriptionView};
use foundation::calendar::TimeZone;
use foundation::error::Error;
use foundation::id::{AccountId, CustomerId, PaymentMethodId, PlanId, SubscriptionId};
use serde::Deserialize;
use tokio::time::{Instant, sleep};
use utoipa::ToSchema;

use super::merchant_data::MerchantDataFields;
use crate::app::App;
use crate::body::{Body, Day, Description, ExternalId, Metadata, Reference, Zone, merchant_data, required};
use crate::error::{ApiResult, created, ok};
use crate::guard::Authenticated;
use crate::path::Path;
use crate::replays::{IdempotentCreate, respond, stored_response};

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
        merchant_data: merchant_data(fields.metadata, fields.external_id)?,
    };
    let now = app.now(&caller).await?;
    let (id, new_object) = match engine::create_subscription(&app.db, &caller, &new, idempotent.key(), now).await? {
        CreationResult::New(subscription) if subscription.latest_invoice_id.is_some() => {
            (subscription.id, Some(subscription))
        }
        CreationResult::Earlier(EarlierRequest::Collecting(id)) => (id, None),
        creation @ (CreationResult::New(_) | CreationResult::Earlier(_)) => {
            return respond(&app, creation, |subscription| created(SubscriptionView::new(subscription)));
        }
    };
    match (after_collection(&app, caller.account_id, id, idempotent.key()).await, new_object) {
        // It is committed, so this is not an error of the request.
        (Err(_), Some(new_object)) => Ok(created(SubscriptionView::new(&new_object))),
        (response, _) => response,
    }
}

/// Responds once the invoice of the first cycle is paid or could not be collected, at the latest after [`WAIT`].
///
/// # Errors
/// If nothing can be read at the end.
async fn after_collection(app: &App, account: AccountId, id: SubscriptionId, key: Option<&CreationKey>) -> ApiResult {
    let end = Instant::now() + WAIT + POLL_INTERVAL;
    loop {
        sleep(POLL_INTERVAL).await;
        let is_last = Instant::now() >= end;
        let error = match poll(app, account, id, key, is_last).await {
            Ok(Some(response)) => return Ok(response),
            Ok(None) if !is_last => continue,
            Ok(None) => Error::internal(format!("the response of {id} is still provisional")),
            Err(error) => error,
        };
        tracing::warn!(%error, subscription = %id, "the first collection could not be read");
        if is_last {
            return Err(error.into());
        }
    }
}

/// The response, if it is final. Requests with the same key get the same one: the first that is stored, or after
/// [`WAIT`] the one stored at the creation.
async fn poll(
    app: &App,
    account: AccountId,
    id: SubscriptionId,
    key: Option<&CreationKey>,
    is_last: bool,
) -> Result<Option<Response>, Error> {
    let stored = async || match key {
        Some(key) => stored_response(app, key).await,
        None => Ok(None),
    };
    if let Some(response) = stored().await? {
        return Ok(Some(response));
    }
    let subscription = subscriptions::retrieve(&*app.db, account, id).await?;
    let view = SubscriptionView::new(&subscription);
    match key {
        _ if !is_last && is_collecting(app, &subscription).await? => Ok(None),
        None => Ok(Some(created(view))),
        Some(key) => {
            key.complete(&app.db, &view).await?;
            stored().await
        }
    }
}

/// Whether the latest invoice waits for its first attempt.
async fn is_collecting(app: &App, subscription: &Subscription) -> Result<bool, Error> {
    let Some(invoice) = subscription.latest_invoice_id else { return Ok(false) };
    let invoice = invoices::retrieve(&*app.db, subscription.account_id, invoice).await?;
    Ok(invoice.status == InvoiceStatus::Scheduled && subscription.status == Status::Active)
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
    Body { fields, .. }: Body<MerchantDataFields>,
) -> ApiResult {
    let (id, change) = (SubscriptionId::from_request(&id)?, fields.into_change());
    let updated = subscriptions::update(&app.db, caller.account_id, id, change).await?;
    Ok(ok(SubscriptionView::new(&updated)))
}

//! /v1/webhook_endpoints

use axum::extract::State;
use domain::deleted::DeletedView;
use domain::webhooks::endpoints::{self, EndpointChange, EndpointUrl, NewEndpoint};
use domain::webhooks::{DeliveryView, EndpointView, test_endpoint};
use foundation::id::WebhookEndpointId;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::body::{Body, EndpointStatus, EventName, Metadata, WebUrl, merchant_data, optional_list, required};
use crate::error::{ApiResult, created, ok};
use crate::guard::Authenticated;
use crate::path::Path;
use crate::replays::{IdempotentCreate, respond};

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NewEndpointFields {
    /// The URL to deliver to, up to 2,048 characters. Live accounts need `https`.
    url: Option<WebUrl>,
    /// The event types to deliver. An empty list means all, also those added later.
    #[serde(default, deserialize_with = "optional_list")]
    #[schema(default = json!([]))]
    enabled_events: Option<Vec<EventName>>,
    /// Your own data.
    metadata: Option<Metadata>,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EndpointFields {
    /// The URL to deliver to, up to 2,048 characters. Live accounts need `https`.
    url: Option<WebUrl>,
    /// Replaces the whole list; an empty list means all event types.
    #[serde(default, deserialize_with = "optional_list")]
    enabled_events: Option<Vec<EventName>>,
    /// `disabled` stops deliveries; `enabled` resumes them and resets the failure count.
    status: Option<EndpointStatus>,
    /// Your own data: pairs to set. `null` removes a pair; the others stay.
    metadata: Option<Metadata>,
}

pub(super) async fn create(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    idempotent: IdempotentCreate,
    Body { fields, .. }: Body<NewEndpointFields>,
) -> ApiResult {
    let new = NewEndpoint {
        url: EndpointUrl::parse(required("url", fields.url)?.0, endpoints::policy(caller.mode, app.webhook_loopback))?,
        enabled_events: fields.enabled_events.into_iter().flatten().map(|name| name.0).collect(),
        metadata: merchant_data(fields.metadata, None)?.metadata,
    };
    let now = app.clock.now();
    let creation =
        engine::create_webhook_endpoint(&app.db, &app.encryption, &caller, new, idempotent.key(), now).await?;
    respond(&app, creation, |endpoint| created(EndpointView::with_secret(endpoint, caller.livemode())))
}

pub(super) async fn update(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    Body { fields, .. }: Body<EndpointFields>,
) -> ApiResult {
    let change = EndpointChange {
        url: fields
            .url
            .map(|url| EndpointUrl::parse(url.0, endpoints::policy(caller.mode, app.webhook_loopback)))
            .transpose()?,
        enabled_events: fields.enabled_events.map(|names| names.into_iter().map(|name| name.0).collect()),
        status: fields.status.map(|status| status.0),
        metadata: fields.metadata.map(|metadata| metadata.0),
    };
    let endpoint = endpoints::update(&app.db, caller.account_id, WebhookEndpointId::from_request(&id)?, change).await?;
    Ok(ok(EndpointView::new(&endpoint, caller.livemode())))
}

pub(super) async fn retrieve(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> ApiResult {
    let endpoint = endpoints::retrieve(&app.db, caller.account_id, WebhookEndpointId::from_request(&id)?).await?;
    Ok(ok(EndpointView::new(&endpoint, caller.livemode())))
}

pub(super) async fn rotate_secret(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> ApiResult {
    let endpoint =
        endpoints::rotate_secret(&app.db, &app.encryption, caller.account_id, WebhookEndpointId::from_request(&id)?)
            .await?;
    Ok(ok(EndpointView::with_secret(&endpoint, caller.livemode())))
}

pub(super) async fn test(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> ApiResult {
    let (id, livemode) = (WebhookEndpointId::from_request(&id)?, caller.livemode());
    let delivery = test_endpoint(&app.db, caller.account_id, livemode, id, app.clock.now()).await?;
    Ok(ok(DeliveryView::new(&delivery, livemode)))
}

pub(super) async fn delete(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> ApiResult {
    let id = WebhookEndpointId::from_request(&id)?;
    endpoints::delete(&app.db, caller.account_id, id, app.clock.now()).await?;
    Ok(ok(DeletedView::webhook_endpoint(id)))
}

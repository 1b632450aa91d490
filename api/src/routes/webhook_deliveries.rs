//! /v1/webhook_deliveries

use axum::extract::State;
use domain::webhooks::deliveries::{self, Filter};
use domain::webhooks::{DeliveryStatus, DeliveryView};
use foundation::error::Error;
use foundation::id::{WebhookDeliveryId, WebhookEndpointId};
use foundation::page::ListView;
use foundation::queues;
use queue::Wake;

use crate::app::App;
use crate::error::{ApiResult, ok};
use crate::guard::Authenticated;
use crate::path::Path;
use crate::query::Params;
use crate::request_id;

pub(super) async fn list(State(app): State<App>, Authenticated(caller): Authenticated, params: Params) -> ApiResult {
    let page = params.page()?;
    let status = params.get("status").map(status).transpose()?;
    let endpoint = params.get("endpointId").map(WebhookEndpointId::from_request).transpose()?;
    let rows = deliveries::list(&app.db, caller.account_id, Filter { endpoint, status }, page).await?;
    let livemode = caller.livemode();
    let views = rows.views(|delivery| DeliveryView::new(delivery, livemode));
    Ok(ok(ListView::new(views, |view| view.id.to_string())))
}

fn status(text: &str) -> Result<DeliveryStatus, Error> {
    let found = DeliveryStatus::ALL.into_iter().find(|status| status.name() == text);
    found.ok_or_else(|| Error::invalid("status", "status must be one of pending, succeeded, failed"))
}

pub(super) async fn retrieve(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> ApiResult {
    let delivery = deliveries::retrieve(&app.db, caller.account_id, WebhookDeliveryId::from_request(&id)?).await?;
    Ok(ok(DeliveryView::new(&delivery, caller.livemode())))
}

pub(super) async fn replay(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> ApiResult {
    let id = WebhookDeliveryId::from_request(&id)?;
    let delivery = deliveries::replay(&app.db, caller.account_id, id, app.clock.now()).await?;
    let wake = Wake { id: delivery.endpoint_id.uuid(), request_id: request_id::current().map(|id| id.to_string()) };
    app.publisher.post(queues::WEBHOOKS, wake);
    Ok(ok(DeliveryView::new(&delivery, caller.livemode())))
}

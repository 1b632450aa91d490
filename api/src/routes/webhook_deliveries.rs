//! /v1/webhook_deliveries

use axum::extract::State;
use domain::webhooks::DeliveryView;
use domain::webhooks::deliveries;
use foundation::id::WebhookDeliveryId;
use foundation::queues;
use queue::Wake;

use crate::app::App;
use crate::error::{ApiResult, ok};
use crate::guard::Authenticated;
use crate::path::Path;
use crate::request_id;

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

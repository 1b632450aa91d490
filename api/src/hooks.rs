//! Events that providers send. An event makes a look-up due, and is acknowledged when that is committed. So events may be
//! repeated, lost or in any order.

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::from_fn;
use axum::routing::post;
use domain::{accounts, operations, payments};
use foundation::error::Error;
use foundation::id::{AccountId, ProviderAccountId};
use providers::stripe;

use crate::app::App;
use crate::body;
use crate::error::{ApiError, ApiResult};
use crate::path::Path;
use crate::request_layer::client_address;
use crate::retry;

/// Stripe's largest events are smaller.
const MAX_BODY: usize = 512 * 1024;
const SIGNATURE: &str = "Stripe-Signature";

pub(crate) fn router() -> Router<App> {
    let events =
        post(async |State(app): State<App>, Path(id): Path<String>, request: Request| stripe(&app, &id, request).await);
    Router::new()
        .route("/hooks/stripe/{account}", events.fallback(async || ApiError::method_not_allowed()))
        .layer(from_fn(retry::run))
}

/// Receives an event of an account at Stripe. Until its signature is verified, the request is charged to its address.
async fn stripe(app: &App, account: &str, request: Request) -> ApiResult<StatusCode> {
    let address = client_address(&request);
    let decision = app.limits.acquire_unverified(address).await;
    if !decision.allowed {
        return Err(ApiError::rate_limited(decision));
    }
    let (head, body) = request.into_parts();
    let signature = head.headers.get(SIGNATURE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let body = body::read(body, MAX_BODY).await?;
    // One error for all, so that the response does not show which accounts exist.
    let rejected =
        || Error::invalid(SIGNATURE, "no recent signature of this body with the endpoint's secret of this account");
    let account: AccountId = account.parse().map_err(|_| rejected())?;
    let connected = accounts::at_stripe(&app.db, &app.encryption, account).await?;
    let (at_stripe, credentials) = connected.ok_or_else(rejected)?;
    let secret = credentials.webhook_secret.ok_or_else(rejected)?;
    let event = stripe::Event::read(signature, &body, &secret, app.clock.now()).ok_or_else(rejected)?;
    app.limits.refund_unverified(address).await;
    let decision = app.limits.acquire_event(account).await;
    if !decision.allowed {
        return Err(ApiError::rate_limited(decision));
    }
    look_up_soon(app, at_stripe, &event).await?;
    Ok(StatusCode::OK)
}

async fn look_up_soon(app: &App, at_stripe: ProviderAccountId, event: &stripe::Event) -> Result<(), Error> {
    if let Some(payment) = &event.payment {
        payments::inquire_soon(&app.db, at_stripe, payment, app.clock.now()).await?;
    }
    if let Some(reference) = &event.reference {
        operations::push_soon(&app.db, at_stripe, reference).await?;
    }
    Ok(())
}

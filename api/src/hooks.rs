//! Events that providers send. An event makes a look-up due, and is acknowledged when that is committed. So events may be
//! repeated, lost or in any order.

use std::time::Duration;

use axum::Router;
use axum::body::HttpBody;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::from_fn;
use axum::routing::post;
use domain::{accounts, charges, payments};
use foundation::error::Error;
use foundation::id::{AccountId, ProviderAccountId};
use providers::stripe;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::app::App;
use crate::body::MAX_BODY;
use crate::error::{ApiError, ApiResult};
use crate::path::Path;
use crate::request_layer::client_address;
use crate::retry;

/// Stripe's largest events are smaller.
const MAX_EVENT: usize = 512 * 1024;
/// Events read at once that may be longer than the bodies of other requests: they need more memory than is planned for a
/// connection.
static LONG_EVENTS: Semaphore = Semaphore::const_new(32);
/// How long a request waits for its turn.
const TURN_TIMEOUT: Duration = Duration::from_secs(5);
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
    // One error for all. Only who sends no body, and has guessed an id, can tell that the account takes events.
    let rejected =
        || Error::invalid(SIGNATURE, "no recent signature of this body with the endpoint's secret of this account");
    let signature = head.headers.get(SIGNATURE).and_then(|value| value.to_str().ok());
    let signature = signature.and_then(|header| stripe::Signature::recent(header, app.clock.now()));
    let signature = signature.ok_or_else(rejected)?;
    let account: AccountId = account.parse().map_err(|_| rejected())?;
    let connected = accounts::at_stripe(&app.db, &app.encryption, account).await?;
    let (at_stripe, credentials) = connected.ok_or_else(rejected)?;
    let secret = credentials.webhook_secret.ok_or_else(rejected)?;
    let is_long = body.size_hint().upper().is_none_or(|length| length > MAX_BODY as u64);
    // Held as long as the body.
    let _turn = match is_long {
        true => Some(timeout(TURN_TIMEOUT, LONG_EVENTS.acquire()).await.map_err(|_| ApiError::busy())?),
        false => None,
    };
    let body = retry::read_body(&head.extensions, body, MAX_EVENT).await?;
    let event = stripe::Event::read(&signature, &body, &secret).ok_or_else(rejected)?;
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
        charges::push_soon(&app.db, at_stripe, reference).await?;
    }
    Ok(())
}

//! Who may come in: origin, key, kind of key, capability, in this order (docs/api.md, Order of checks).

use axum::Router;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::header::{AUTHORIZATION, ORIGIN};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method};
use axum::middleware::{Next, from_fn_with_state};
use axum::routing::MethodRouter;
use common::accounts::{self, Caller, KeyKind, Mode};
use common::capabilities::Operation;
use tower_http::cors::{AllowOrigin, CorsLayer};

use crate::answer::{Answer, Refusal};
use crate::app::App;

/// A handler's proof that the request was let in, and by whose key.
pub(crate) struct Authenticated(pub(crate) Caller);

impl<S: Send + Sync> FromRequestParts<S> for Authenticated {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        // A route without a guard would be a bug, and must not be an open door.
        parts.extensions.remove::<Caller>().map(Self).ok_or_else(Refusal::fault)
    }
}

/// A route for secret keys that have this entitlement.
pub(crate) fn secret(app: &App, operation: Operation, handler: MethodRouter<App>) -> MethodRouter<App> {
    handler.route_layer(from_fn_with_state((app.clone(), Some(operation)), let_secret_in))
}

/// A route for secret keys, whatever their entitlements: the list of capabilities.
pub(crate) fn any_secret(app: &App, handler: MethodRouter<App>) -> MethodRouter<App> {
    handler.route_layer(from_fn_with_state((app.clone(), None), let_secret_in))
}

async fn let_secret_in(
    State((app, operation)): State<(App, Option<Operation>)>,
    mut request: Request,
    next: Next,
) -> Answer {
    let caller = authenticate(&app, request.headers()).await?;
    if caller.key_kind != KeyKind::Secret {
        return Err(Refusal::wrong_kind(
            "a publishable key starts checkout sessions and exchanges tokens, nothing else",
        ));
    }
    if let Some(operation) = operation {
        caller.require(operation)?;
    }
    request.extensions_mut().insert(caller);
    Ok(next.run(request).await)
}

/// Routes for browsers: publishable keys, CORS for any origin (a preflight carries no key), and this entitlement.
pub(crate) fn browser(app: &App, path: &str, operation: Operation, handler: MethodRouter<App>) -> Router<App> {
    let cors = CorsLayer::new()
        .allow_origin(AllowOrigin::mirror_request())
        .allow_methods([Method::POST])
        .allow_headers([axum::http::header::AUTHORIZATION, axum::http::header::CONTENT_TYPE])
        .expose_headers([axum::http::HeaderName::from_static("request-id")])
        .max_age(std::time::Duration::from_secs(600));
    let guarded = handler.route_layer(from_fn_with_state((app.clone(), operation), let_browser_in));
    Router::new()
        .route(path, guarded)
        // Set here, inside the CORS layer: one set around it would answer the preflights itself.
        .method_not_allowed_fallback(async || Refusal::wrong_method())
        .layer(cors)
}

async fn let_browser_in(State((app, operation)): State<(App, Operation)>, mut request: Request, next: Next) -> Answer {
    // Before anything else is read. Of the exchange, the session is the capability.
    let origin = (operation == Operation::CheckoutSessionsCreate)
        .then(|| request.headers().get(ORIGIN).cloned().ok_or_else(Refusal::no_origin))
        .transpose()?;
    let caller = authenticate(&app, request.headers()).await?;
    if caller.key_kind != KeyKind::Publishable {
        return Err(Refusal::wrong_kind("a secret key must never be used in a browser"));
    }
    let allowed = |origin: &[u8]| caller.allowed_origins.iter().any(|allowed| allowed.as_bytes() == origin);
    if origin.is_some_and(|origin| !allowed(origin.as_bytes())) {
        return Err(Refusal::unauthenticated("this origin is not on the key's allow-list"));
    }
    caller.require(operation)?;
    request.extensions_mut().insert(caller);
    Ok(next.run(request).await)
}

async fn authenticate(app: &App, headers: &HeaderMap) -> Answer<Caller> {
    let key = bearer(headers).ok_or_else(|| Refusal::unauthenticated("Authorization: Bearer <API key> is required"))?;
    let caller = accounts::authenticate(&app.db, &app.pepper, key).await?;
    if caller.mode == Mode::Live && caller.key_kind == KeyKind::Secret {
        return Err(Refusal::unauthenticated("this key requires request signing"));
    }
    Ok(caller)
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, key) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
}

//! Who may come in: origin, key, kind of key, capability, in this order (docs/api.md, Order of checks).

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::extract::{ConnectInfo, FromRequestParts, Request, State};
use axum::http::header::{AUTHORIZATION, ORIGIN};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::IntoResponse;
use axum::routing::MethodRouter;
use common::accounts::{Caller, KeyKind, Mode};
use common::capabilities::Operation;
use common::error::Error;
use common::nonces;
use tower_http::cors::{AllowOrigin, CorsLayer};

use crate::answer::{Answer, Refusal};
use crate::app::App;
use crate::endpoint::Door;
use crate::{body, signing};

/// A handler's proof that the request was let in, and by whose key.
pub(crate) struct Authenticated(pub(crate) Arc<Caller>);

impl<S: Send + Sync> FromRequestParts<S> for Authenticated {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        // A route without a guard would be a bug, and must not be an open door.
        parts.extensions.remove::<Arc<Caller>>().map(Self).ok_or_else(Refusal::fault)
    }
}

/// A route for secret keys that may pass this door.
pub(crate) fn secret(app: &App, door: Door, handler: MethodRouter<App>) -> MethodRouter<App> {
    handler.route_layer(from_fn_with_state((app.clone(), door), let_secret_in))
}

async fn let_secret_in(State((app, door)): State<(App, Door)>, request: Request, next: Next) -> Answer {
    let (caller, request) = authenticate(&app, request).await?;
    within_limits(&app, caller, request, next, |caller| {
        if caller.key_kind != KeyKind::Secret {
            return Err(Refusal::wrong_kind(
                "a publishable key starts checkout sessions and exchanges tokens, nothing else",
            ));
        }
        if matches!(door, Door::TestSecret(_)) && caller.livemode() {
            return Err(Refusal::wrong_kind("a live account has no test clock; its time is everyone's"));
        }
        door.operation().map_or(Ok(()), |operation| Ok(caller.require(operation)?))
    })
    .await
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

async fn let_browser_in(State((app, operation)): State<(App, Operation)>, request: Request, next: Next) -> Answer {
    // Before anything else is read. Of the exchange, the session is the capability.
    let origin = (operation == Operation::CheckoutSessionsCreate)
        .then(|| request.headers().get(ORIGIN).cloned().ok_or_else(Refusal::no_origin))
        .transpose()?;
    let (caller, request) = authenticate(&app, request).await?;
    within_limits(&app, caller, request, next, |caller| {
        if caller.key_kind != KeyKind::Publishable {
            return Err(Refusal::wrong_kind("a secret key must never be used in a browser"));
        }
        let allowed = |origin: &[u8]| caller.allowed_origins.iter().any(|allowed| allowed.as_bytes() == origin);
        if origin.is_some_and(|origin| !allowed(origin.as_bytes())) {
            return Err(Refusal::unauthenticated("this origin is not on the key's allow-list"));
        }
        Ok(caller.require(operation)?)
    })
    .await
}

/// Takes one request from the key's bucket, checks what the route asks of the key, and goes on. The bucket's state is told
/// with every answer.
async fn within_limits(
    app: &App,
    caller: Arc<Caller>,
    mut request: Request,
    next: Next,
    check: impl FnOnce(&Caller) -> Answer<()>,
) -> Answer {
    let verdict = app.limits.take(&caller).await;
    let admitted = if verdict.allowed() { check(&caller) } else { Err(Refusal::too_many(verdict)) };
    let mut response = match admitted {
        Ok(()) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(refusal) => refusal.into_response(),
    };
    verdict.write(response.headers_mut());
    Ok(response)
}

/// Finds out whose key it is, and whether a live request is signed by its holder. Whoever fails is counted by address.
async fn authenticate(app: &App, request: Request) -> Answer<(Arc<Caller>, Request)> {
    let address = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|info| info.0.ip());
    let refusal = match identify(app, request).await {
        Ok(identified) => return Ok(identified),
        Err(refusal) => refusal,
    };
    let verdict = app.limits.take_stranger(address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)));
    Err(if verdict.allowed() { refusal } else { Refusal::too_many(verdict) })
}

async fn identify(app: &App, request: Request) -> Answer<(Arc<Caller>, Request)> {
    let key = bearer(request.headers())
        .ok_or_else(|| Refusal::unauthenticated("Authorization: Bearer <API key> is required"))?;
    let caller = app.keys.authenticate(key).await?;
    if caller.mode == Mode::Live && caller.key_kind == KeyKind::Secret {
        let request = check_signature(app, &caller, request).await?;
        return Ok((caller, request));
    }
    Ok((caller, request))
}

/// Reads the body to check its digest, and gives the request back whole.
async fn check_signature(app: &App, caller: &Caller, request: Request) -> Answer<Request> {
    let sealed = caller.signing_secret.as_deref();
    let secret =
        sealed.and_then(|sealed| app.encryption.open(sealed, &caller.key_id.to_string())).ok_or_else(|| {
            Error::internal(format!(
                "the signing secret of {} cannot be read: was ENCRYPTION_KEY changed?",
                caller.key_id
            ))
        })?;
    let (parts, body) = request.into_parts();
    let body = body::read(body).await?;
    let now = app.clock.now().as_millisecond() / 1000;
    let nonce = signing::verify(&parts, &body, &caller.key_id.to_string(), secret.expose(), now)
        .map_err(Refusal::unauthenticated)?;
    if !nonces::use_once(&app.db, caller.account_id, caller.key_id, &nonce).await? {
        return Err(Refusal::unauthenticated("the nonce was used before"));
    }
    Ok(Request::from_parts(parts, body.into()))
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, key) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use proptest::prelude::*;
    use testkit::fuzz::{check, mutated, texts};

    use super::*;

    #[test]
    fn a_key_is_what_follows_bearer() {
        check(prop_oneof![mutated("Bearer svc_sk_test_1"), mutated("bearer  x y "), texts()], |text| {
            let Ok(value) = HeaderValue::from_bytes(text.as_bytes()) else { return };
            let headers = HeaderMap::from_iter([(AUTHORIZATION, value)]);
            if let Some(key) = bearer(&headers) {
                assert!(text.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("bearer ")), "{text}");
                assert_eq!(key, text[7..].trim());
            }
        });
    }
}

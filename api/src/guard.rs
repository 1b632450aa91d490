//! Authentication and authorization: the address's limit, the key, its kind, the origin, the entitlement and the key's
//! limit (docs/api.md, Order of checks).

use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::MethodRouter;
use domain::accounts::{AuthError, Caller, KeyKind, Mode, key_id, signing_secret_place};
use domain::nonces;
use foundation::card_number::excerpt;
use foundation::error::Error;
use foundation::header::{self, Repeated};
use providers::capabilities::Permission;
use tower_http::cors::{AllowOrigin, CorsLayer};

use crate::app::App;
use crate::body::{self, MAX_BODY};
use crate::error::{ApiError, ApiResult};
use crate::limits::RateLimitDecision;
use crate::request_layer::{RequestContext, client_address};
use crate::trusted::Trusted;
use crate::used_key::UsedKey;
use crate::{retry, signing};

/// The key that a route requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Any secret key.
    AnySecret,
    /// A secret key with this entitlement.
    Secret(Permission),
    /// A secret key of a test account with this entitlement.
    TestSecret(Permission),
    /// A publishable key with this entitlement, from a browser.
    Browser(Permission),
}

impl Access {
    /// The operation whose entitlement is required.
    pub(crate) const fn operation(self) -> Option<Permission> {
        match self {
            Self::AnySecret => None,
            Self::Secret(operation) | Self::TestSecret(operation) | Self::Browser(operation) => Some(operation),
        }
    }
}

/// Extracts the caller; a handler that takes one runs only for authorized requests.
pub(crate) struct Authenticated(pub(crate) Arc<Caller>);

impl<S: Send + Sync> FromRequestParts<S> for Authenticated {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        // A route without a guard would be a bug; it must fail, not be open.
        parts.extensions.get::<Arc<Caller>>().cloned().map(Self).ok_or_else(ApiError::internal)
    }
}

/// A route for secret keys with this access.
pub(crate) fn secret_key_route(app: &App, access: Access, handler: MethodRouter<App>) -> MethodRouter<App> {
    let guard = from_fn_with_state((app.clone(), access), authorize_secret_key);
    handler.route_layer(from_fn(retry::run)).route_layer(guard)
}

async fn authorize_secret_key(State((app, access)): State<(App, Access)>, request: Request, next: Next) -> ApiResult {
    let AuthenticatedRequest { caller, mut request, nonce, charged } = authenticate(&app, request).await?;
    if caller.key_kind != KeyKind::Secret {
        // Charged to the address: all visitors of a shop share the bucket of its publishable key.
        let error = ApiError::forbidden("a publishable key can only start checkout sessions and exchange tokens");
        return match charged {
            Some(decision) => Ok(with_rate_limit(decision, error)),
            None => Err(charge_failure(&app, client_address(&request), error).await),
        };
    }
    let charged = charged.map(|_| client_address(&request));
    let decision = app.limits.acquire_key(&caller, charged).await;
    if !decision.allowed {
        return Err(ApiError::rate_limited(decision));
    }
    // After the limit, so that requests over it do not reach the database.
    if let Some(nonce) = nonce
        && let Err(error) = use_nonce(&app, &caller, &nonce).await
    {
        let error = charge_failure(&app, client_address(&request), error).await;
        return Ok(with_rate_limit(decision, error));
    }
    if let Err(error) = check_access(&caller, access) {
        return Ok(with_rate_limit(decision, error));
    }
    request.extensions_mut().insert(caller);
    Ok(with_rate_limit(decision, next.run(request).await))
}

fn check_access(caller: &Caller, access: Access) -> ApiResult<()> {
    if matches!(access, Access::TestSecret(_)) && caller.livemode() {
        return Err(ApiError::forbidden("this operation is available to test accounts only"));
    }
    access.operation().map_or(Ok(()), |operation| Ok(caller.require(operation)?))
}

/// Adds the rate limit headers, unless the response already reports another bucket.
fn with_rate_limit(decision: RateLimitDecision, response: impl IntoResponse) -> Response {
    let mut response = response.into_response();
    if !response.headers().contains_key("ratelimit") {
        decision.write(response.headers_mut());
    }
    response
}

/// A route for publishable keys with this entitlement. CORS allows any origin, because a preflight carries no key.
pub(crate) fn browser_route(app: &App, path: &str, operation: Permission, handler: MethodRouter<App>) -> Router<App> {
    let cors = CorsLayer::new()
        .allow_origin(AllowOrigin::mirror_request())
        .allow_methods([Method::POST])
        .allow_headers([axum::http::header::AUTHORIZATION, axum::http::header::CONTENT_TYPE])
        .expose_headers([axum::http::HeaderName::from_static("request-id")])
        .max_age(std::time::Duration::from_secs(600));
    let guarded = handler.route_layer(from_fn(retry::run));
    let guarded = guarded.route_layer(from_fn_with_state((app.clone(), operation), authorize_publishable_key));
    Router::new()
        .route(path, guarded)
        // Inside the CORS layer: outside, it would respond to the preflights.
        .method_not_allowed_fallback(async || ApiError::method_not_allowed())
        .layer(cors)
}

async fn authorize_publishable_key(
    State((app, operation)): State<(App, Permission)>,
    request: Request,
    next: Next,
) -> ApiResult {
    // Checked first. A token exchange needs no origin: its session is the credential.
    let origin = (operation == Permission::CheckoutSessionsCreate)
        .then(|| match header::single(request.headers(), "Origin") {
            Ok(origin) => origin.cloned().ok_or_else(ApiError::no_origin),
            Err(Repeated) => Err(ApiError::unauthenticated("Origin must be sent once")),
        })
        .transpose()?;
    let address = client_address(&request);
    let decision = app.limits.acquire_page(address).await;
    if !decision.allowed {
        return Err(ApiError::rate_limited(decision));
    }
    let caller = authenticate_key(&app, request.headers(), RequestContext::of(&request)).await?;
    app.keys.record_use(caller.key_id);
    if let Err(error) = check_browser_access(&caller, operation, origin.as_ref()) {
        return Ok(with_rate_limit(decision, error));
    }
    // All visitors share the key's bucket: requests rejected before it, or by the handler, are charged to the address
    // only.
    let decision = app.limits.acquire_visitor(&caller, address).await;
    if !decision.allowed {
        return Err(ApiError::rate_limited(decision));
    }
    let mut request = request;
    remember_key(&app, &mut request)?;
    request.extensions_mut().insert(Arc::clone(&caller));
    let response = next.run(request).await;
    if response.status().is_client_error() || response.status() == StatusCode::SERVICE_UNAVAILABLE {
        app.limits.refund_key(&caller).await;
    }
    Ok(with_rate_limit(decision, response))
}

fn check_browser_access(caller: &Caller, operation: Permission, origin: Option<&HeaderValue>) -> ApiResult<()> {
    if caller.key_kind != KeyKind::Publishable {
        return Err(ApiError::forbidden("a secret key must never be used in a browser"));
    }
    let allowed = |origin: &HeaderValue| caller.allowed_origins.iter().any(|own| own.as_bytes() == origin.as_bytes());
    if let Some(origin) = origin.filter(|origin| !allowed(origin)) {
        return Err(ApiError::unauthenticated(format!(
            "the origin {:?} is not on the account's allow-list; add it in the portal under Developers, API keys, or as \
             an operator with: ctl accounts set ACCOUNT --origin …, once for every allowed origin",
            excerpt(&String::from_utf8_lossy(origin.as_bytes()))
        )));
    }
    Ok(caller.require(operation)?)
}

struct AuthenticatedRequest {
    caller: Arc<Caller>,
    request: Request,
    /// The nonce of a signed request, not yet marked as used.
    nonce: Option<String>,
    /// The decision of the address's bucket, if it was charged because the key was not known to be valid.
    charged: Option<RateLimitDecision>,
}

async fn use_nonce(app: &App, caller: &Caller, nonce: &str) -> ApiResult<()> {
    if nonces::use_once(&app.db, caller.account_id, caller.key_id, nonce).await? {
        Ok(())
    } else {
        Err(ApiError::unauthenticated("the nonce was already used"))
    }
}

/// Authenticates the key and the signature of a live request. Failures are charged to the client address, and an
/// address over its limit is rejected before the database is queried. A secret key that this process has already
/// accepted skips that limit, so that guessing from a shared address cannot lock out a merchant.
async fn authenticate(app: &App, request: Request) -> ApiResult<AuthenticatedRequest> {
    if let Some(Trusted(caller)) = request.extensions().get::<Trusted>().cloned() {
        RequestContext::of(&request).set_authenticated(caller.account_id, caller.key_id);
        app.keys.record_use(caller.key_id);
        return Ok(AuthenticatedRequest { caller, request, nonce: None, charged: None });
    }
    let address = client_address(&request);
    let accepted_before = key_of(request.headers()).is_ok_and(|key| app.keys.has_verified_secret(key));
    let charged = match accepted_before {
        true => None,
        false => Some(app.limits.acquire_unverified(address).await),
    };
    if let Some(decision) = charged.filter(|decision| !decision.allowed) {
        return Err(ApiError::rate_limited(decision));
    }
    match identify(app, request).await {
        Ok((caller, mut request, nonce)) => {
            app.keys.record_use(caller.key_id);
            remember_key(app, &mut request)?;
            Ok(AuthenticatedRequest { caller, request, nonce, charged })
        }
        Err(error) if error.status().is_server_error() => {
            // The key could not be checked.
            if charged.is_some() {
                app.limits.refund_unverified(address).await;
            }
            Err(error)
        }
        Err(error) if charged.is_some() => Err(error),
        Err(error) => Err(charge_failure(app, address, error).await),
    }
}

/// Charges the address for a failed request; over its limit the error becomes a 429.
async fn charge_failure(app: &App, address: IpAddr, error: ApiError) -> ApiError {
    let decision = app.limits.acquire_unverified(address).await;
    if decision.allowed { error } else { ApiError::rate_limited(decision) }
}

/// Looks up the key that was sent. The request's log line gets its id, or the claimed id of a rejected key.
async fn authenticate_key(app: &App, headers: &HeaderMap, context: RequestContext) -> ApiResult<Arc<Caller>> {
    let key = key_of(headers)?;
    let caller = app.keys.authenticate(key).await.inspect_err(|error| {
        if let (AuthError::Refused, Some(id)) = (error, key_id(key)) {
            context.set_claimed(id);
        }
    })?;
    context.set_authenticated(caller.account_id, caller.key_id);
    Ok(caller)
}

async fn identify(app: &App, request: Request) -> ApiResult<(Arc<Caller>, Request, Option<String>)> {
    let caller = authenticate_key(app, request.headers(), RequestContext::of(&request)).await?;
    if caller.mode == Mode::Live && caller.key_kind == KeyKind::Secret {
        let (request, nonce) = check_signature(app, &caller, request).await?;
        return Ok((caller, request, Some(nonce)));
    }
    Ok((caller, request, None))
}

/// Verifies the signature, then reads the body to check its digest: what is not signed is not read. Returns the request
/// with its body restored, and the nonce.
async fn check_signature(app: &App, caller: &Caller, request: Request) -> ApiResult<(Request, String)> {
    let sealed = caller.signing_secret.as_deref();
    let secret = sealed
        .and_then(|sealed| app.encryption.open(sealed, &signing_secret_place(caller.account_id, caller.key_id)))
        .ok_or_else(|| {
            Error::internal(format!(
                "the signing secret of {} cannot be decrypted: was ENCRYPTION_KEY changed?",
                caller.key_id
            ))
        })?;
    let (parts, body) = request.into_parts();
    let now = app.clock.now().as_millisecond() / 1000;
    let signed = signing::verify_head(&parts, &caller.key_id.to_string(), secret.expose(), now)
        .map_err(ApiError::unauthenticated)?;
    let body = body::read(body, MAX_BODY).await?;
    let nonce = signed.verify_body(&body).map_err(ApiError::unauthenticated)?;
    Ok((Request::from_parts(parts, body.into()), nonce))
}

/// The key is checked again once the body has arrived.
fn remember_key(app: &App, request: &mut Request) -> ApiResult<()> {
    let key = key_of(request.headers())?.to_owned();
    UsedKey::insert(&app.keys, key, request);
    Ok(())
}

fn key_of(headers: &HeaderMap) -> ApiResult<&str> {
    let message =
        "exactly one Authorization: Bearer <API key> header is required; Basic authentication is not supported";
    bearer(headers).ok_or_else(|| ApiError::unauthenticated(message))
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let only = header::single(headers, "Authorization").ok().flatten()?;
    let (scheme, key) = only.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
}

#[cfg(test)]
mod tests {
    use axum::http::header::AUTHORIZATION;
    use proptest::prelude::*;
    use testkit::fuzz::{check, mutated, texts};

    use super::*;

    #[test]
    fn the_key_is_the_text_after_bearer() {
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

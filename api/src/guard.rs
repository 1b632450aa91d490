//! Who may come in: origin, key, kind of key, capability, in this order (docs/api.md, Order of checks).

use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::header::{AUTHORIZATION, ORIGIN};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::IntoResponse;
use axum::routing::MethodRouter;
use common::accounts::{AuthError, Caller, KeyKind, Mode, key_id};
use common::capabilities::Operation;
use common::error::Error;
use common::nonces;
use tower_http::cors::{AllowOrigin, CorsLayer};

use crate::answer::{Answer, Refusal};
use crate::app::App;
use crate::endpoint::Door;
use crate::envelope::Asker;
use crate::pages::html::address_of;
use crate::{again, body, signing};

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
    handler.route_layer(from_fn(again::run)).route_layer(from_fn_with_state((app.clone(), door), let_secret_in))
}

async fn let_secret_in(State((app, door)): State<(App, Door)>, request: Request, next: Next) -> Answer {
    let known = authenticate(&app, request).await?;
    within_limits(&app, known, next, |caller| {
        if caller.key_kind != KeyKind::Secret {
            return Err(Refusal::wrong_kind(
                "a publishable key starts checkout sessions and exchanges tokens, nothing else",
            ));
        }
        if matches!(door, Door::TestSecret(_)) && caller.livemode() {
            return Err(Refusal::wrong_kind("this operation is for test accounts alone"));
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
    let guarded = handler.route_layer(from_fn(again::run));
    let guarded = guarded.route_layer(from_fn_with_state((app.clone(), operation), let_browser_in));
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
    let known = authenticate(&app, request).await?;
    // The key is public, and its bucket all visitors': no one of them empties it.
    let verdict = app.limits.take_payer(address_of(&known.request));
    if !verdict.allowed() {
        return Err(Refusal::too_many(verdict));
    }
    within_limits(&app, known, next, |caller| {
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

/// A request whose key is known.
struct Known {
    caller: Arc<Caller>,
    request: Request,
    /// Of a signed one: good once.
    nonce: Option<String>,
}

/// Takes one request from the key's bucket, uses its nonce up, checks what the route asks of the key, and goes on. The bucket's
/// state is told with every answer. Who comes too often costs the database nothing.
async fn within_limits(app: &App, known: Known, next: Next, check: impl FnOnce(&Caller) -> Answer<()>) -> Answer {
    let Known { caller, mut request, nonce } = known;
    let verdict = app.limits.take(&caller).await;
    if let (true, Some(nonce)) = (verdict.allowed(), nonce) {
        use_once(app, &caller, &nonce).await.map_err(|refusal| counted(app, address_of(&request), refusal))?;
    }
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

async fn use_once(app: &App, caller: &Caller, nonce: &str) -> Answer<()> {
    if nonces::use_once(&app.db, caller.account_id, caller.key_id, nonce).await? {
        Ok(())
    } else {
        Err(Refusal::unauthenticated("the nonce was used before"))
    }
}

/// Finds out whose key it is, and whether a live request is signed by its holder. Whoever fails is counted by address.
async fn authenticate(app: &App, request: Request) -> Answer<Known> {
    let address = address_of(&request);
    let known = identify(app, request).await.map_err(|refusal| counted(app, address, refusal))?;
    app.keys.note_use(known.caller.key_id);
    Ok(known)
}

fn counted(app: &App, address: IpAddr, refusal: Refusal) -> Refusal {
    let verdict = app.limits.take_stranger(address);
    if verdict.allowed() { refusal } else { Refusal::too_many(verdict) }
}

async fn identify(app: &App, request: Request) -> Answer<Known> {
    let key = bearer(request.headers())
        .ok_or_else(|| Refusal::unauthenticated("Authorization: Bearer <API key> is required"))?;
    let asker = Asker::of(&request);
    let caller = app.keys.authenticate(key).await.inspect_err(|error| {
        if let (AuthError::Refused, Some(id)) = (error, key_id(key)) {
            asker.claims(id);
        }
    })?;
    asker.is(caller.account_id, caller.key_id);
    if caller.mode == Mode::Live && caller.key_kind == KeyKind::Secret {
        let (request, nonce) = check_signature(app, &caller, request).await?;
        return Ok(Known { caller, request, nonce: Some(nonce) });
    }
    Ok(Known { caller, request, nonce: None })
}

/// Reads the body to check its digest, and gives the request back whole, with its nonce.
async fn check_signature(app: &App, caller: &Caller, request: Request) -> Answer<(Request, String)> {
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
    Ok((Request::from_parts(parts, body.into()), nonce))
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

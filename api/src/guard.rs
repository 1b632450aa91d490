//! Who may come in: limits by address, key, kind of key, origin, capability, limit of the key (docs/api.md, Order of checks).

use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::header::{AUTHORIZATION, ORIGIN};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::MethodRouter;
use common::accounts::{AuthError, Caller, KeyKind, Mode, key_id};
use common::capabilities::Operation;
use common::card_number::shown;
use common::error::Error;
use common::nonces;
use tower_http::cors::{AllowOrigin, CorsLayer};

use crate::answer::{Answer, Refusal};
use crate::app::App;
use crate::endpoint::Door;
use crate::envelope::Asker;
use crate::limits::Verdict;
use crate::pages::html::address_of;
use crate::{again, body, signing};

/// A handler's proof that the request was let in, and by whose key.
pub(crate) struct Authenticated(pub(crate) Arc<Caller>);

impl<S: Send + Sync> FromRequestParts<S> for Authenticated {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        // A route without a guard would be a bug, and must not be an open door.
        parts.extensions.get::<Arc<Caller>>().cloned().map(Self).ok_or_else(Refusal::fault)
    }
}

/// A route for secret keys that may pass this door.
pub(crate) fn secret(app: &App, door: Door, handler: MethodRouter<App>) -> MethodRouter<App> {
    handler.route_layer(from_fn(again::run)).route_layer(from_fn_with_state((app.clone(), door), let_secret_in))
}

async fn let_secret_in(State((app, door)): State<(App, Door)>, request: Request, next: Next) -> Answer {
    let Known { caller, mut request, nonce, charged } = authenticate(&app, request).await?;
    if caller.key_kind != KeyKind::Secret {
        // The bucket of a publishable key is for the visitors of a shop: the address pays for this.
        let wrong =
            Refusal::wrong_kind("a publishable key starts checkout sessions and exchanges tokens, nothing else");
        return match charged {
            Some(verdict) => Ok(limited(verdict, wrong)),
            None => Err(counted(&app, address_of(&request), wrong).await),
        };
    }
    let charged = charged.map(|_| address_of(&request));
    let verdict = app.limits.take_key(&caller, charged).await;
    if !verdict.allowed() {
        return Err(Refusal::too_many(verdict));
    }
    // After the limit: who comes too often costs the database nothing.
    if let Some(nonce) = nonce
        && let Err(refusal) = use_once(&app, &caller, &nonce).await
    {
        let refusal = counted(&app, address_of(&request), refusal).await;
        return Ok(limited(verdict, refusal));
    }
    if let Err(refusal) = may(&caller, door) {
        return Ok(limited(verdict, refusal));
    }
    request.extensions_mut().insert(caller);
    Ok(limited(verdict, next.run(request).await))
}

/// What the route asks of a secret key.
fn may(caller: &Caller, door: Door) -> Answer<()> {
    if matches!(door, Door::TestSecret(_)) && caller.livemode() {
        return Err(Refusal::wrong_kind("this operation is for test accounts alone"));
    }
    door.operation().map_or(Ok(()), |operation| Ok(caller.require(operation)?))
}

/// An answer that says how the bucket stands from which its request was taken, unless it says how another does.
fn limited(verdict: Verdict, answer: impl IntoResponse) -> Response {
    let mut response = answer.into_response();
    if !response.headers().contains_key("ratelimit") {
        verdict.write(response.headers_mut());
    }
    response
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
    let address = address_of(&request);
    let verdict = app.limits.take_page(address).await;
    if !verdict.allowed() {
        return Err(Refusal::too_many(verdict));
    }
    let caller = holder(&app, request.headers(), Asker::of(&request)).await?;
    app.keys.note_use(caller.key_id);
    if let Err(refusal) = may_in_a_browser(&caller, operation, origin.as_ref()) {
        return Ok(limited(verdict, refusal));
    }
    // The key is public, and its bucket all visitors': what is refused before it, or by the handler, costs the address alone.
    let verdict = app.limits.take_visitor(&caller, address).await;
    if !verdict.allowed() {
        return Err(Refusal::too_many(verdict));
    }
    let mut request = request;
    request.extensions_mut().insert(Arc::clone(&caller));
    let response = next.run(request).await;
    if response.status().is_client_error() {
        app.limits.give_back(&caller).await;
    }
    Ok(limited(verdict, response))
}

/// What a route for browsers asks of a key and of a page.
fn may_in_a_browser(caller: &Caller, operation: Operation, origin: Option<&HeaderValue>) -> Answer<()> {
    if caller.key_kind != KeyKind::Publishable {
        return Err(Refusal::wrong_kind("a secret key must never be used in a browser"));
    }
    let allowed = |origin: &HeaderValue| caller.allowed_origins.iter().any(|one| one.as_bytes() == origin.as_bytes());
    if let Some(origin) = origin.filter(|origin| !allowed(origin)) {
        return Err(Refusal::unauthenticated(format!(
            "the origin {:?} is not on the account's allow-list; an operator allows it with: ctl accounts set ACCOUNT \
             --origin …, naming every origin that is to be allowed",
            shown(&String::from_utf8_lossy(origin.as_bytes()))
        )));
    }
    Ok(caller.require(operation)?)
}

/// A request whose key is known.
struct Known {
    caller: Arc<Caller>,
    request: Request,
    /// Of a signed one: good once.
    nonce: Option<String>,
    /// What its address was charged before the key was known to be good, if it was.
    charged: Option<Verdict>,
}

async fn use_once(app: &App, caller: &Caller, nonce: &str) -> Answer<()> {
    if nonces::use_once(&app.db, caller.account_id, caller.key_id, nonce).await? {
        Ok(())
    } else {
        Err(Refusal::unauthenticated("the nonce was used before"))
    }
}

/// Finds out whose key it is, and whether a live request is signed by its holder. Whoever fails is counted by address, and whoever
/// has failed too often is refused before the database is asked. A secret key that this process knows to be good is not: nobody
/// shuts a merchant out by guessing from the address that both of them have.
async fn authenticate(app: &App, request: Request) -> Answer<Known> {
    let address = address_of(&request);
    let known = key_of(request.headers()).is_ok_and(|key| app.keys.has_seen_secret(key));
    let charged = match known {
        true => None,
        false => Some(app.limits.take_unknown(address).await),
    };
    if let Some(verdict) = charged.filter(|verdict| !verdict.allowed()) {
        return Err(Refusal::too_many(verdict));
    }
    match identify(app, request).await {
        Ok((caller, request, nonce)) => {
            app.keys.note_use(caller.key_id);
            Ok(Known { caller, request, nonce, charged })
        }
        Err(refusal) if refusal.status().is_server_error() => {
            // Nothing was found out about the key.
            if charged.is_some() {
                app.limits.give_back_unknown(address).await;
            }
            Err(refusal)
        }
        Err(refusal) if charged.is_some() => Err(refusal),
        Err(refusal) => Err(counted(app, address, refusal).await),
    }
}

async fn counted(app: &App, address: IpAddr, refusal: Refusal) -> Refusal {
    let verdict = app.limits.take_unknown(address).await;
    if verdict.allowed() { refusal } else { Refusal::too_many(verdict) }
}

/// Whose key was sent. The log of the request names it, or the public id that was only claimed.
async fn holder(app: &App, headers: &HeaderMap, asker: Asker) -> Answer<Arc<Caller>> {
    let key = key_of(headers)?;
    let caller = app.keys.authenticate(key).await.inspect_err(|error| {
        if let (AuthError::Refused, Some(id)) = (error, key_id(key)) {
            asker.claims(id);
        }
    })?;
    asker.is(caller.account_id, caller.key_id);
    Ok(caller)
}

async fn identify(app: &App, request: Request) -> Answer<(Arc<Caller>, Request, Option<String>)> {
    let caller = holder(app, request.headers(), Asker::of(&request)).await?;
    if caller.mode == Mode::Live && caller.key_kind == KeyKind::Secret {
        let (request, nonce) = check_signature(app, &caller, request).await?;
        return Ok((caller, request, Some(nonce)));
    }
    Ok((caller, request, None))
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

fn key_of(headers: &HeaderMap) -> Answer<&str> {
    bearer(headers).ok_or_else(|| Refusal::unauthenticated("one header Authorization: Bearer <API key> is required"))
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut sent = headers.get_all(AUTHORIZATION).iter();
    // Of two, a balancer may have read the other.
    let (Some(only), None) = (sent.next(), sent.next()) else { return None };
    let (scheme, key) = only.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
}

#[cfg(test)]
mod tests {
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

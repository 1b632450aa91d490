//! The two routes of browsers: /v1/checkout_sessions and /v1/tokens

use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::ORIGIN;
use common::checkout::{self, Intent};
use common::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::answer::{Answer, created};
use crate::app::App;
use crate::body::{Body, CheckoutIntent, Reference, required};
use crate::guard::Authenticated;

#[derive(Deserialize)]
pub(super) struct SessionFields {
    intent: Option<CheckoutIntent>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SessionView<'a> {
    object: &'static str,
    livemode: bool,
    created_at: Timestamp,
    session_id: &'a str,
    mount_url: String,
    modifiers: &'a serde_json::Value,
    expires_at: Timestamp,
}

pub(super) async fn start_session(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    headers: HeaderMap,
    Body { fields, .. }: Body<SessionFields>,
) -> Answer {
    let intent = fields.intent.map_or_else(Intent::default, |intent| intent.0);
    // The guard has seen that it is there, and on the allow-list.
    let origin = headers.get(ORIGIN).and_then(|origin| origin.to_str().ok()).unwrap_or_default();
    let now = app.clock.now();
    let session = checkout::start_session(&app.db, &caller, intent, origin, now).await?;
    let id = session.text.expose();
    Ok(created(SessionView {
        object: "checkout_session",
        livemode: caller.livemode(),
        created_at: now,
        session_id: id,
        mount_url: format!("{}/elements/field/{id}", app.public_url),
        modifiers: &caller.modifiers,
        expires_at: session.expires_at,
    }))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ExchangeFields {
    session_id: Option<Reference>,
    upstream_token: Option<Reference>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TokenView<'a> {
    object: &'static str,
    livemode: bool,
    created_at: Timestamp,
    payment_token: &'a str,
    expires_at: Timestamp,
}

pub(super) async fn exchange(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Body { fields, .. }: Body<ExchangeFields>,
) -> Answer {
    let session = required("sessionId", fields.session_id)?.0;
    let upstream_token = required("upstreamToken", fields.upstream_token)?.0;
    let now = app.clock.now();
    let token = checkout::exchange(&app.db, &caller, &session, &upstream_token, now).await?;
    Ok(created(TokenView {
        object: "token",
        livemode: caller.livemode(),
        created_at: now,
        payment_token: token.text.expose(),
        expires_at: token.expires_at,
    }))
}

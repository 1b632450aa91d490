//! The two routes for browsers: /v1/checkout_sessions and /v1/tokens

use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::ORIGIN;
use domain::checkout::{self, Intent};
use foundation::schema;
use foundation::time::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa::openapi::ObjectBuilder;

use crate::app::App;
use crate::body::{Body, CheckoutIntent, Reference, required};
use crate::error::{ApiResult, created};
use crate::guard::Authenticated;

#[derive(Deserialize, ToSchema)]
pub(crate) struct SessionFields {
    /// The intended use of the token. Informational: it is not enforced.
    #[schema(default = "one_time")]
    intent: Option<CheckoutIntent>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = CheckoutSession)]
pub(crate) struct SessionView<'a> {
    #[schema(schema_with = schema::checkout_session)]
    object: &'static str,
    livemode: bool,
    created_at: Timestamp,
    /// The secret id of the session, which is valid for 30 minutes and one token exchange.
    #[schema(value_type = SessionId)]
    session_id: &'a str,
    /// The URL of the card field.
    mount_url: String,
    #[schema(schema_with = modifiers)]
    modifiers: &'a serde_json::Value,
    /// When the session expires.
    expires_at: Timestamp,
}

schema::field_types! {
    SessionId = schema::text("^cs_[0-9a-f]{40}$", "cs_4f1d0c9b8a7e6d5c4b3a29180716253443526170");
    PaymentToken = schema::text("^mtok_[0-9a-f]{40}$", "mtok_4f1d0c9b8a7e6d5c4b3a29180716253443526170");
}

fn modifiers() -> schema::Field {
    let kind = || {
        ObjectBuilder::from(schema::enumeration(["percent", "fixed"]))
            .description(Some("`percent`: a part of the amount. `fixed`: the same for every amount."))
    };
    let value = || {
        ObjectBuilder::from(schema::integer(0, i64::MAX))
            .description(Some("Basis points if `percent`, the currency's minor unit if `fixed`."))
    };
    let modifier = |description| {
        ObjectBuilder::new()
            .property("type", kind())
            .property("value", value())
            .required("type")
            .required("value")
            .description(Some(description))
    };
    ObjectBuilder::new()
        .property("surcharge", modifier("Added to every payment."))
        .property("tax", modifier("Tax on the amount."))
        .property("tip", modifier("Added if the payer chooses it."))
        .description(Some("What a payment page adds by the account's settings; empty if nothing."))
        .into()
}

pub(super) async fn start_session(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    headers: HeaderMap,
    Body { fields, .. }: Body<SessionFields>,
) -> ApiResult {
    let intent = fields.intent.map_or_else(Intent::default, |intent| intent.0);
    // The guard has checked that it is present and on the allow-list.
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

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExchangeFields {
    /// A session that has not been exchanged yet.
    session_id: Option<Reference>,
    /// The token that the card field received from the provider, or a test token.
    upstream_token: Option<Reference>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Token)]
pub(crate) struct TokenView<'a> {
    #[schema(schema_with = schema::token)]
    object: &'static str,
    livemode: bool,
    created_at: Timestamp,
    /// The token, to be sent as `paymentToken`. Valid for one payment or one saved card, within two minutes.
    #[schema(value_type = PaymentToken)]
    payment_token: &'a str,
    /// When the token expires.
    expires_at: Timestamp,
}

pub(super) async fn exchange(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Body { fields, .. }: Body<ExchangeFields>,
) -> ApiResult {
    let session = required("sessionId", fields.session_id)?.0;
    let upstream_token = required("upstreamToken", fields.upstream_token)?.0;
    let now = app.clock.now();
    let token = checkout::exchange(&app.db, &caller, &session, &upstream_token, &app.encryption, now).await?;
    Ok(created(TokenView {
        object: "token",
        livemode: caller.livemode(),
        created_at: now,
        payment_token: token.text.expose(),
        expires_at: token.expires_at,
    }))
}

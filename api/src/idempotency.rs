//! Idempotency-Key on requests that create an object: a repeated one is answered here, before anything that its body names is
//! looked at (docs/api.md, Idempotency). Payments answer their own replays.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use common::accounts::Caller;
use common::error::Error;
use common::idempotency::{CreationKey, Earlier, IdempotencyKey, Kept, Made};

use crate::answer::{Answer, Refusal};
use crate::app::App;
use crate::input::Sent;

pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// The key of a request, with what tells its body from others.
///
/// # Errors
/// 422 naming the header.
pub(crate) fn key_of(parts: &Parts) -> Answer<Option<IdempotencyKey>> {
    let Some(key) = parts.headers.get(IDEMPOTENCY_KEY) else { return Ok(None) };
    // Every route of the table is behind `input::read`.
    let sent = parts.extensions.get::<Sent>().ok_or_else(Refusal::fault)?;
    Ok(Some(IdempotencyKey::parse(key.as_bytes(), &sent.json)?))
}

/// The key of a payment, which keeps its answer itself.
pub(crate) struct PaymentKey(pub(crate) Option<IdempotencyKey>);

impl<S: Send + Sync> FromRequestParts<S> for PaymentKey {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        key_of(parts).map(Self)
    }
}

/// The key of a request that creates another object. A handler that takes one is not run for a replay.
pub(crate) struct Once(Option<CreationKey>);

impl FromRequestParts<App> for Once {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Response> {
        match find(parts, app).await.map_err(IntoResponse::into_response)? {
            (_, Some(kept)) => Err(answer_kept(app, kept).unwrap_or_else(IntoResponse::into_response)),
            (key, None) => Ok(Self(key)),
        }
    }
}

/// The key, and the answer that is kept for it.
async fn find(parts: &Parts, app: &App) -> Answer<(Option<CreationKey>, Option<Kept>)> {
    let Some(key) = key_of(parts)? else { return Ok((None, None)) };
    let operation = parts.extensions.get::<Sent>().and_then(|sent| sent.operation).ok_or_else(Refusal::fault)?;
    let caller = parts.extensions.get::<Arc<Caller>>().ok_or_else(Refusal::fault)?;
    let key = CreationKey::new(caller.account_id, operation, key, app.clock.now());
    match key.find(&app.db).await? {
        Some(Earlier::Answered(kept)) => Ok((Some(key), Some(kept))),
        // A card that is being saved is waited for by its route.
        Some(Earlier::Saving(_)) | None => Ok((Some(key), None)),
    }
}

impl Once {
    pub(crate) fn key(&self) -> Option<&CreationKey> {
        self.0.as_ref()
    }

    /// The answer that is kept for the key by now; none if there is no key, or it cannot be read. What was done stays done.
    pub(crate) async fn kept(&self, app: &App) -> Option<Response> {
        match self.key()?.find(&app.db).await {
            Ok(Some(Earlier::Answered(kept))) => answer_kept(app, kept).ok(),
            Ok(Some(Earlier::Saving(_)) | None) => None,
            Err(error) => {
                tracing::warn!(%error, "the kept answer could not be read; answering with the object");
                None
            }
        }
    }
}

/// Answers with what was created, or as the request was answered before.
pub(crate) fn answer<T>(app: &App, made: Made<T>, render: impl FnOnce(&T) -> Response) -> Answer {
    match made {
        Made::New(object) => Ok(render(&object)),
        Made::Earlier(Earlier::Answered(kept)) => answer_kept(app, kept),
        Made::Earlier(Earlier::Saving(card)) => {
            Err(Error::internal(format!("{card} was saved by another operation")).into())
        }
    }
}

fn answer_kept(app: &App, kept: Kept) -> Answer {
    let status = StatusCode::from_u16(kept.status).unwrap_or(StatusCode::CREATED);
    let replayed = kept.replayed;
    let response = as_json(status, kept.open(&app.encryption)?.expose().clone());
    Ok(if replayed { mark_replayed(response) } else { response })
}

/// An answer's bytes.
pub(crate) fn as_json(status: StatusCode, body: String) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], body).into_response()
}

/// Says that the answer was given before.
pub(crate) fn mark_replayed(mut response: Response) -> Response {
    response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    response
}

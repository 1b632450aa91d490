//! Replays of requests that create an object, by their Idempotency-Key (docs/api.md, Idempotency). A replay gets the
//! stored response here, before the objects that its body names are looked up. Payments handle their own replays.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use domain::accounts::Caller;
use domain::idempotency::{CreationKey, CreationResult, EarlierRequest, IdempotencyKey, StoredResponse};
use foundation::error::Error;
use providers::capabilities::Permission;

use crate::app::App;
use crate::body::ValidatedBody;
use crate::error::{ApiError, ApiResult};

pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
const KEY_STATUS: HeaderName = HeaderName::from_static("idempotency-key-status");

/// The key of a request, with the fingerprint of its body.
///
/// # Errors
/// 422 naming the header.
pub(crate) fn key_of(parts: &Parts) -> ApiResult<Option<IdempotencyKey>> {
    let Some(key) = parts.headers.get(IDEMPOTENCY_KEY) else { return Ok(None) };
    let body = parts.extensions.get::<ValidatedBody>().ok_or_else(ApiError::internal)?;
    Ok(Some(IdempotencyKey::parse(key.as_bytes(), &body.json)?))
}

/// The key of a payment, which stores its response itself.
pub(crate) struct PaymentKey(pub(crate) Option<IdempotencyKey>);

impl<S: Send + Sync> FromRequestParts<S> for PaymentKey {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        key_of(parts).map(Self)
    }
}

/// The key of a request that creates another object. Extracting it responds to a replay, so the handler does not run.
pub(crate) struct IdempotentCreate(Option<CreationKey>);

impl FromRequestParts<App> for IdempotentCreate {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Response> {
        match find(parts, app).await.map_err(IntoResponse::into_response)? {
            (_, Some(stored)) => {
                Err(replay(app, stored).map_err(ApiError::from).unwrap_or_else(IntoResponse::into_response))
            }
            (key, None) => Ok(Self(key)),
        }
    }
}

/// The key and its stored response, if there is one.
async fn find(parts: &Parts, app: &App) -> ApiResult<(Option<CreationKey>, Option<StoredResponse>)> {
    let Some(key) = key_of(parts)? else { return Ok((None, None)) };
    let body = parts.extensions.get::<ValidatedBody>();
    let operation = body.and_then(|body| body.operation).ok_or_else(ApiError::internal)?;
    let caller = parts.extensions.get::<Arc<Caller>>().ok_or_else(ApiError::internal)?;
    let key = CreationKey::new(caller.account_id, operation, key, app.clock.now());
    match key.find(&app.db).await? {
        Some(EarlierRequest::Completed(stored)) => Ok((Some(key), Some(stored))),
        // The handler waits for what an earlier request is waiting for.
        Some(EarlierRequest::SavingCard(_) | EarlierRequest::Collecting(_)) | None => Ok((Some(key), None)),
    }
}

impl IdempotentCreate {
    pub(crate) fn key(&self) -> Option<&CreationKey> {
        self.0.as_ref()
    }
}

/// The final response of the requests with this key, if there is one yet.
///
/// # Errors
/// Database errors, or if the response cannot be decrypted.
pub(crate) async fn stored_response(app: &App, key: &CreationKey) -> Result<Option<Response>, Error> {
    match key.find(&app.db).await? {
        Some(EarlierRequest::Completed(stored)) => replay(app, stored).map(Some),
        Some(EarlierRequest::SavingCard(_) | EarlierRequest::Collecting(_)) | None => Ok(None),
    }
}

/// Responds with the created object, or with the stored response of an earlier request.
pub(crate) fn respond<T>(app: &App, creation: CreationResult<T>, render: impl FnOnce(&T) -> Response) -> ApiResult {
    match creation {
        CreationResult::New(object) => Ok(render(&object)),
        CreationResult::Earlier(EarlierRequest::Completed(stored)) => Ok(replay(app, stored)?),
        CreationResult::Earlier(other) => Err(Error::internal(format!("another operation created {other:?}")).into()),
    }
}

fn replay(app: &App, stored: StoredResponse) -> Result<Response, Error> {
    let status = StatusCode::from_u16(stored.status).unwrap_or(StatusCode::CREATED);
    let replayed = stored.replayed;
    let response = json_response(status, stored.open(&app.encryption)?.expose().clone());
    Ok(if replayed { mark_replayed(response) } else { response })
}

/// A response whose body is already serialized.
pub(crate) fn json_response(status: StatusCode, body: String) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], body).into_response()
}

/// Whether an operation has no effect on repeated requests with one key, although it changes money.
pub(crate) const fn ignores_key(operation: Permission) -> bool {
    matches!(operation, Permission::PaymentsCapture | Permission::PaymentsVoid | Permission::PaymentsRefund)
}

/// Tells a client that its key had no effect.
pub(crate) fn mark_not_honoured(mut response: Response) -> Response {
    response.headers_mut().insert(KEY_STATUS, HeaderValue::from_static("not-honoured"));
    response
}

/// Marks a response that was stored by an earlier request.
pub(crate) fn mark_replayed(mut response: Response) -> Response {
    response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    response
}

//! Reading a form's body: not too long, and not for too long.

use std::borrow::Cow;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use http_body_util::{BodyExt, LengthLimitError, Limited};

use super::{Form, envelope};
use crate::app::Lifetime;
use crate::failure::Code;

/// A form with every field at its longest fits in.
const MAX_BYTES: usize = 64 * 1024;
/// From the head to the last byte.
const TIMEOUT: Duration = Duration::from_secs(4);

/// The one type of a body that is read. A request that names no type is taken for one.
const FORM: &str = "application/x-www-form-urlencoded";
/// Characters of another type that are repeated to who has sent it.
const SHOWN: usize = 60;

/// A body that was not read.
pub(super) struct Refused(StatusCode, Cow<'static, str>);

impl Refused {
    pub(super) fn into_response(self) -> Response {
        envelope::error(self.0, Code::Unknown, &self.1)
    }
}

/// Reads a form whole, or says why not. Nothing has been done then.
pub(super) async fn form(request: Request, lifetime: Lifetime) -> Result<Form, Refused> {
    if let Some(other) = another_type(request.headers()) {
        let why = format!("Unsupported content type {other}; send {FORM}. Nothing was entered");
        return Err(Refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, why.into()));
    }
    read(request.into_body(), lifetime).await.map(|bytes| Form::parse(&bytes))
}

/// The type of a body that is no form, without its parameters.
fn another_type(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(CONTENT_TYPE)?;
    let Ok(text) = value.to_str() else { return Some("that is no text".to_owned()) };
    let kind = text.split(';').next().unwrap_or_default().trim();
    (!kind.eq_ignore_ascii_case(FORM)).then(|| kind.chars().take(SHOWN).collect())
}

async fn read(body: Body, lifetime: Lifetime) -> Result<Bytes, Refused> {
    let too_long =
        || Refused(StatusCode::PAYLOAD_TOO_LARGE, "The form is longer than 64 KiB; nothing was entered".into());
    // A client that waits for "100 Continue" is told before it sends anything.
    if body.size_hint().lower() > u64::try_from(MAX_BYTES).unwrap_or(u64::MAX) {
        return Err(too_long());
    }
    let left = TIMEOUT.saturating_sub(lifetime.elapsed());
    match tokio::time::timeout(left, Limited::new(body, MAX_BYTES).collect()).await {
        Ok(Ok(whole)) => Ok(whole.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_long()),
        Ok(Err(_)) => Err(Refused(StatusCode::BAD_REQUEST, "The form broke off; nothing was entered".into())),
        Err(_) => Err(Refused(StatusCode::REQUEST_TIMEOUT, "The form came too slowly; nothing was entered".into())),
    }
}

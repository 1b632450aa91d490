//! Reading a form's body: not too long, and not for too long.

use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::StatusCode;
use axum::response::Response;
use http_body_util::{BodyExt, LengthLimitError, Limited};

use super::envelope;
use crate::app::Lifetime;
use crate::failure::Code;

/// A form with every field at its longest fits in.
const MAX_BYTES: usize = 64 * 1024;
/// From the head to the last byte.
const TIMEOUT: Duration = Duration::from_secs(4);

/// A body that was not read.
pub(super) struct Refused(StatusCode, &'static str);

impl Refused {
    pub(super) fn into_response(self) -> Response {
        envelope::error(self.0, Code::Unknown, self.1)
    }
}

/// Reads it whole, or says why not. Nothing has been done then.
pub(super) async fn read(body: Body, lifetime: Lifetime) -> Result<Bytes, Refused> {
    let too_long = || Refused(StatusCode::PAYLOAD_TOO_LARGE, "The form is longer than 64 KiB; nothing was entered");
    // A client that waits for "100 Continue" is told before it sends anything.
    if body.size_hint().lower() > u64::try_from(MAX_BYTES).unwrap_or(u64::MAX) {
        return Err(too_long());
    }
    let left = TIMEOUT.saturating_sub(lifetime.elapsed());
    match tokio::time::timeout(left, Limited::new(body, MAX_BYTES).collect()).await {
        Ok(Ok(whole)) => Ok(whole.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_long()),
        Ok(Err(_)) => Err(Refused(StatusCode::BAD_REQUEST, "The form broke off; nothing was entered")),
        Err(_) => Err(Refused(StatusCode::REQUEST_TIMEOUT, "The form came too slowly; nothing was entered")),
    }
}

//! Reads a form's body within limits of size and time.

use std::borrow::Cow;
use std::time::Duration;

use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use foundation::body::{ReadError, read};
use foundation::header;

use super::envelope;
use super::form::Form;
use crate::deadline::Deadline;
use crate::failure::{Code, Failure};

/// Large enough for a form with every field at its maximum length.
const MAX_BYTES: usize = 64 * 1024;
/// From the request head to the last byte.
const TIMEOUT: Duration = Duration::from_secs(4);

/// The only accepted content type; also assumed for a request without one.
const FORM: &str = "application/x-www-form-urlencoded";
/// How many characters of an unsupported content type the response repeats.
const MAX_SHOWN: usize = 60;

/// The body was not accepted.
pub(super) enum BodyError {
    /// It could not be read as a form.
    Unreadable(StatusCode, Cow<'static, str>),
    Form(Failure),
}

impl BodyError {
    pub(super) fn into_response(self) -> Response {
        match self {
            Self::Unreadable(status, why) => envelope::error(status, Code::Unknown, &why),
            Self::Form(failure) => envelope::failure(failure, Code::EntryFailed),
        }
    }
}

/// Reads the whole form. On an error nothing has been entered.
pub(super) async fn form(request: Request, deadline: Deadline) -> Result<Form, BodyError> {
    let Ok(content_type) = header::single(request.headers(), "Content-Type") else {
        let why = "Content-Type was sent more than once. Nothing was entered";
        return Err(BodyError::Unreadable(StatusCode::UNSUPPORTED_MEDIA_TYPE, why.into()));
    };
    if let Some(other) = content_type.and_then(unsupported_type) {
        let why = format!("Unsupported content type {other}; send {FORM}. Nothing was entered");
        return Err(BodyError::Unreadable(StatusCode::UNSUPPORTED_MEDIA_TYPE, why.into()));
    }
    let left = TIMEOUT.saturating_sub(deadline.elapsed());
    let bytes = read(request.into_body(), MAX_BYTES, left).await.map_err(|error| {
        let (status, why) = match error {
            ReadError::TooLong => {
                (StatusCode::PAYLOAD_TOO_LARGE, "The form is longer than 64 KiB; nothing was entered")
            }
            ReadError::TooLate => {
                (StatusCode::REQUEST_TIMEOUT, "The form took too long to arrive; nothing was entered")
            }
            ReadError::Incomplete => (StatusCode::BAD_REQUEST, "The form was incomplete; nothing was entered"),
        };
        BodyError::Unreadable(status, why.into())
    })?;
    Form::parse(&bytes).map_err(BodyError::Form)
}

/// The content type without parameters, if it is not [`FORM`].
fn unsupported_type(value: &HeaderValue) -> Option<String> {
    let Ok(text) = value.to_str() else { return Some("(not text)".to_owned()) };
    let kind = text.split(';').next().unwrap_or_default().trim();
    (!kind.eq_ignore_ascii_case(FORM)).then(|| kind.chars().take(MAX_SHOWN).collect())
}

//! Responses to a payment from a page: a redirect for a plain form post, JSON for the page's script.

use axum::Json;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::{ACCEPT, LOCATION};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// What sent the form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sender {
    /// The browser itself.
    Form,
    /// `pay.js`, which accepts JSON and no HTML.
    Script,
}

/// What the browser does next.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reply<'a> {
    /// Show these lines on the current page, with the card still entered.
    ShowMessage(&'a [String]),
    /// Go to this URL.
    GoTo(&'a str),
    /// Go to the bank's challenge; `back` is the page's URL for this payment.
    Challenge { location: &'a str, back: &'a str },
    /// Submit the form without the script, to load a new page.
    Submit,
}

impl Sender {
    pub(super) fn of(request: &Request) -> Self {
        let accept = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let accepts = |kind: &str| {
            let mut kinds = accept.split(',').map(|entry| entry.split(';').next().unwrap_or_default().trim());
            kinds.any(|accepted| accepted.eq_ignore_ascii_case(kind))
        };
        if accepts("application/json") && !accepts("text/html") { Self::Script } else { Self::Form }
    }

    /// Builds the response. `status` applies unless it is a redirect.
    pub(super) fn response(self, status: StatusCode, reply: Reply<'_>) -> Response {
        let body = match (self, reply) {
            (Self::Form, Reply::GoTo(location) | Reply::Challenge { location, .. }) => {
                return (StatusCode::SEE_OTHER, [(LOCATION, location)]).into_response();
            }
            // Only used for the script.
            (Self::Form, Reply::ShowMessage(_) | Reply::Submit) => return status.into_response(),
            (Self::Script, Reply::ShowMessage(lines)) => json!({"lines": lines}),
            (Self::Script, Reply::GoTo(location)) => json!({"location": location}),
            (Self::Script, Reply::Challenge { location, back }) => json!({"location": location, "back": back}),
            (Self::Script, Reply::Submit) => json!({"submit": true}),
        };
        (status, Json(body)).into_response()
    }
}

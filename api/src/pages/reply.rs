//! What a browser is told that has pressed the button: a form is led to a page, and the page's own script is told in JSON.

use axum::Json;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::{ACCEPT, LOCATION};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// What has sent the form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sender {
    /// The browser itself.
    Form,
    /// `pay.js`, which asks for JSON.
    Script,
}

/// What comes next.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reply<'a> {
    /// This is said on the page as it is, and the card stays entered.
    Say(&'a [&'a str]),
    /// Another page.
    Go(&'a str),
    /// The bank asks; and this address is where the browser finds the payment again.
    Bank { location: &'a str, back: &'a str },
    /// The browser is to send the form itself.
    Submit,
}

impl Sender {
    pub(super) fn of(request: &Request) -> Self {
        let accept = request.headers().get(ACCEPT).map(|value| value.as_bytes());
        if accept == Some(b"application/json") { Self::Script } else { Self::Form }
    }

    /// The answer; the status is that of one that leads nowhere.
    pub(super) fn answer(self, status: StatusCode, reply: Reply<'_>) -> Response {
        let body = match (self, reply) {
            (Self::Form, Reply::Go(place) | Reply::Bank { location: place, .. }) => {
                return (StatusCode::SEE_OTHER, [(LOCATION, place)]).into_response();
            }
            // Only a script is told to say or to send something.
            (Self::Form, Reply::Say(_) | Reply::Submit) => return status.into_response(),
            (Self::Script, Reply::Say(lines)) => json!({"lines": lines}),
            (Self::Script, Reply::Go(location)) => json!({"location": location}),
            (Self::Script, Reply::Bank { location, back }) => json!({"location": location, "back": back}),
            (Self::Script, Reply::Submit) => json!({"submit": true}),
        };
        (status, Json(body)).into_response()
    }
}

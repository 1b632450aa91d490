//! A refusal as a page: people read it, and it repeats nothing of what was sent.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use common::error::Error;

use super::html::{Text, page};
use crate::answer::Refusal;

/// Why there is no page to show.
#[derive(Debug)]
pub(super) struct Problem(Refusal);

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        Self(refusal)
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = self.0.status();
        let (title, says) = match status {
            StatusCode::NOT_FOUND => (
                "Nothing to pay here",
                "The address leads nowhere. Please look whether it is the whole address that you were given.",
            ),
            StatusCode::METHOD_NOT_ALLOWED => ("This is a page", "It can be read, and paid by its own button."),
            StatusCode::TOO_MANY_REQUESTS => (
                "One moment, please",
                "There were too many requests. Nothing was charged by this one; please try again in a few seconds.",
            ),
            status if status.is_client_error() => (
                "That did not work",
                "What was sent could not be read. Nothing was charged; please go back to the page and try again.",
            ),
            _ => ("Something went wrong on our side", "Nothing was charged by this attempt. Please try again."),
        };
        let body = format!("<section>\n<h1>{title}</h1>\n<p>{says}</p>\n</section>\n");
        let mut response = page(status, Text(title), &body);
        self.0.tell_limit(response.headers_mut());
        self.0.mark(&mut response);
        response
    }
}

//! The pages for failures.

use std::fmt::Display;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use foundation::error::Error;
use maud::html;

use crate::document::document;
use crate::texts::text;

pub(crate) const NOT_KNOWN: &str = "The outcome is not known. Please look at the current state before you try again.";

/// Why there is no page.
#[derive(Debug)]
pub(crate) enum Failure {
    /// There is no such page or object in this account.
    NotFound,
    /// The role of the user does not include it, or the form is of another site.
    Forbidden,
    /// The session has ended since the request began.
    SignedOut,
    /// The account's limit of requests.
    TooMany,
    /// A change may have been made.
    Unknown,
    /// A dependency is not available. Nothing was done.
    Unavailable,
    /// What was entered is not valid; the message of /v1.
    Invalid(String),
    /// Logged where it happened.
    Internal,
}

impl Failure {
    pub(crate) fn internal(error: impl Display) -> Self {
        tracing::error!(%error, "a page could not be rendered");
        Self::Internal
    }

    /// The failure of work whose concurrency is limited, such as checking a password.
    pub(crate) fn of_limited(error: Error) -> Self {
        if let Error::Busy(_) = error {
            tracing::warn!(%error, "too much of this work is running; the client gets 503 and may try again");
            return Self::Unavailable;
        }
        Self::internal(error)
    }

    pub(crate) fn unknown(error: impl Display) -> Self {
        tracing::error!(%error, "the outcome of an action could not be stored");
        Self::Unknown
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let (status, title, message) = match self {
            Self::NotFound => (StatusCode::NOT_FOUND, text("Not found"), text("There is no such page.").to_owned()),
            Self::Forbidden => {
                (StatusCode::FORBIDDEN, text("Not allowed"), text("Your role does not include this.").to_owned())
            }
            Self::SignedOut => return Redirect::to("/sign-in").into_response(),
            Self::TooMany => {
                let message = text("There were too many requests. Please try again in some seconds.");
                (StatusCode::TOO_MANY_REQUESTS, text("Too many requests"), message.to_owned())
            }
            Self::Unknown => (StatusCode::INTERNAL_SERVER_ERROR, text("Not known"), text(NOT_KNOWN).to_owned()),
            Self::Unavailable => {
                let message = text("This is not available at the moment. Please try again.");
                (StatusCode::SERVICE_UNAVAILABLE, text("Not available"), message.to_owned())
            }
            Self::Invalid(message) => (StatusCode::UNPROCESSABLE_ENTITY, text("Not valid"), message),
            Self::Internal => {
                let message = text("Something went wrong on our side. Please try again.");
                (StatusCode::INTERNAL_SERVER_ERROR, text("Error"), message.to_owned())
            }
        };
        let body = html! {
            main {
                h1 { (title) }
                p { (message) }
                p { a href="/" { (text("Home")) } }
            }
        };
        (status, document(title, &body)).into_response()
    }
}

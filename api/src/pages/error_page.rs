//! Errors as HTML pages for cardholders, or in JSON for the page's script. They repeat nothing from the request.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use foundation::error::Error;

use super::layout::page;
use super::pay_response::{Reply, Sender};
use crate::error::ApiError;
use crate::html::Text;

/// An error rendered as a page.
#[derive(Debug)]
pub(super) struct ErrorPage(ApiError);

impl From<ApiError> for ErrorPage {
    fn from(error: ApiError) -> Self {
        Self(error)
    }
}

impl From<Error> for ErrorPage {
    fn from(error: Error) -> Self {
        Self(error.into())
    }
}

/// The message of an error page, which its response carries as an extension.
#[derive(Clone, Copy)]
struct Message(&'static str);

/// The response for this sender: the script gets the message of an error page instead of the page.
pub(super) fn for_sender(sender: Sender, mut response: Response) -> Response {
    match (sender, response.extensions().get::<Message>().copied()) {
        (Sender::Script, Some(Message(message))) => {
            let json = sender.response(response.status(), Reply::ShowMessage(&[message]));
            response.headers_mut().extend(json.headers().clone());
            *response.body_mut() = json.into_body();
            response
        }
        (Sender::Script | Sender::Form, _) => response,
    }
}

impl IntoResponse for ErrorPage {
    fn into_response(self) -> Response {
        let status = self.0.status();
        let (title, message) = match status {
            StatusCode::NOT_FOUND => {
                ("Nothing to pay here", "This address is not valid. Please check that you have the complete address.")
            }
            StatusCode::METHOD_NOT_ALLOWED => {
                ("This did not work", "Please open the page in a browser and pay with the button on it.")
            }
            StatusCode::TOO_MANY_REQUESTS => (
                "One moment, please",
                "There were too many requests. This request charged nothing; please try again in a few seconds.",
            ),
            status if status.is_client_error() => (
                "This did not work",
                "The request could not be read. Nothing was charged; please go back to the page and try again.",
            ),
            _ => ("Something went wrong on our side", "This attempt charged nothing. Please try again."),
        };
        let body = format!("<section>\n<h1>{title}</h1>\n<p>{message}</p>\n</section>\n");
        let mut response = page(status, Text(title), &body);
        response.extensions_mut().insert(Message(message));
        self.0.write_rate_limit(response.headers_mut());
        self.0.mark_aborted(&mut response);
        response
    }
}

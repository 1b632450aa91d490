//! Errors as HTML pages for cardholders, or in JSON for the page's script. They repeat nothing from the request.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use foundation::error::Error;
use maud::html;

use super::layout::page;
use super::pay_response::{Reply, Sender};
use super::reader::Reader;
use crate::error::ApiError;

/// An error that [`render`] makes a page of.
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

/// Marks the response of an [`ErrorPage`], which has no body yet.
#[derive(Clone, Copy)]
struct IsError;

impl IntoResponse for ErrorPage {
    fn into_response(self) -> Response {
        let mut response = self.0.status().into_response();
        response.extensions_mut().insert(IsError);
        self.0.write_retry(response.headers_mut());
        self.0.mark_aborted(&mut response);
        response
    }
}

/// Adds the body of an error: a page in the reader's language, or its message for the page's script.
pub(super) fn render(sender: Sender, reader: Reader, mut response: Response) -> Response {
    if response.extensions().get::<IsError>().is_none() {
        return response;
    }
    let (status, texts) = (response.status(), reader.texts());
    let (title, message) = match status {
        StatusCode::NOT_FOUND => (texts.nothing_here(), texts.address_invalid()),
        StatusCode::METHOD_NOT_ALLOWED => (texts.did_not_work(), texts.open_in_browser()),
        StatusCode::TOO_MANY_REQUESTS => (texts.one_moment(), texts.too_many_requests()),
        status if status.is_client_error() => (texts.did_not_work(), texts.unreadable()),
        _ => (texts.our_fault(), texts.attempt_charged_nothing()),
    };
    let rendered = match sender {
        Sender::Form => {
            page(reader, status, &title, &html! { section { h1 { (title) } p { (message) } } (reader.languages()) })
        }
        Sender::Script => sender.response(status, Reply::ShowMessage(&[message])),
    };
    response.headers_mut().extend(rendered.headers().clone());
    *response.body_mut() = rendered.into_body();
    response
}

//! The card field: a page that one origin may frame, for the length of a checkout session.

use std::sync::LazyLock;

use axum::Router;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{RawPathParams, Request, State};
use axum::http::header::CONTENT_SECURITY_POLICY;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use common::checkout;
use common::error::Error;

use super::files::FIELD;
use super::{INPUTS_STYLE, Taker, inputs};
use crate::answer::Refusal;
use crate::app::App;
use crate::pages::html::{self, Style, Text};

static STYLE: LazyLock<Style> = LazyLock::new(|| Style::new(&[include_str!("field.css"), INPUTS_STYLE]));

/// The route. Whatever it answers is a page that a browser may keep nowhere.
pub(super) fn router(app: &App) -> Router<App> {
    Router::new()
        .route("/elements/field/{session}", get(show).fallback(async || Refusal::wrong_method()))
        .layer(from_fn_with_state(app.clone(), let_in))
}

/// Strangers are counted by their address, together with who opens payment pages.
async fn let_in(State(app): State<App>, request: Request, next: Next) -> Response {
    let verdict = app.limits.take_page(html::address_of(&request)).await;
    let mut response = if verdict.allowed() {
        next.run(request).await
    } else {
        let mut response = problem(StatusCode::TOO_MANY_REQUESTS);
        Refusal::too_many(verdict).tell_limit(response.headers_mut());
        response
    };
    html::quiet(response.headers_mut());
    response
}

async fn show(State(app): State<App>, path: Result<RawPathParams, RawPathParamsRejection>) -> Response {
    let Ok(path) = path else { return problem(StatusCode::NOT_FOUND) };
    let id = path.iter().find(|(name, _)| *name == "session").map_or("", |(_, value)| value);
    match checkout::field_session(&app.db, id).await {
        Ok(session) => match Taker::of_session(&app, &session) {
            Some(taker) => field(&session.origin, &taker),
            None => problem(StatusCode::NOT_IMPLEMENTED),
        },
        Err(Error::NotFound(_)) => problem(StatusCode::NOT_FOUND),
        Err(Error::Conflict(_)) => problem(StatusCode::CONFLICT),
        Err(error) => problem(Refusal::from(error).status()),
    }
}

fn field(origin: &str, taker: &Taker) -> Response {
    // An operator has allowed it, and a browser has sent it. It may still hold nothing that would say more in a header.
    let plain = |c: char| c.is_ascii_alphanumeric() || ":/.-_[]".contains(c);
    if !origin.chars().all(plain) {
        return problem(StatusCode::CONFLICT);
    }
    let body = format!(
        "<main>\n<h1 class=\"unseen\">Card details</h1>\n<form id=\"card\" class=\"card\" novalidate autocomplete=\"on\" data-origin=\"{}\" {}>\n{}</form>\n</main>\n\
         <noscript>A card can be entered here only with JavaScript.</noscript>\n",
        Text(origin),
        taker.attributes(),
        inputs(),
    );
    let html = html::document(Text("Card"), &STYLE, Some((&FIELD, "../")), &body);
    let connect = taker.origin().map(|origin| format!("; connect-src {origin}")).unwrap_or_default();
    let policy = format!(
        "default-src 'none'; style-src {}; script-src 'self'{connect}; form-action 'none'; base-uri 'none'; \
         frame-ancestors {origin}",
        STYLE.source()
    );
    respond(StatusCode::OK, &policy, html)
}

/// Why there is no field. Nobody is told whose page it was to be in, so nobody may frame this.
fn problem(status: StatusCode) -> Response {
    let says = match status {
        StatusCode::NOT_FOUND => "This card field does not exist.",
        StatusCode::CONFLICT => "This card field was used, or its time is up. Please load the page again.",
        StatusCode::TOO_MANY_REQUESTS => "There were too many requests. Please try again in a few seconds.",
        StatusCode::NOT_IMPLEMENTED => "No card can be taken here yet.",
        _ => "Something went wrong on our side. Please try again.",
    };
    let html = html::document(
        Text("Card"),
        &STYLE,
        None,
        &format!("<main>\n<h1 class=\"unseen\">Card details</h1>\n<p role=\"alert\">{says}</p>\n</main>\n"),
    );
    let policy = format!(
        "default-src 'none'; style-src {}; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
        STYLE.source()
    );
    respond(status, &policy, html)
}

fn respond(status: StatusCode, policy: &str, html: String) -> Response {
    let mut response = (status, html::HTML, html).into_response();
    match HeaderValue::try_from(policy) {
        Ok(policy) => {
            response.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
            response
        }
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use testkit::fuzz::{check, mutated, texts};

    use super::*;

    #[test]
    fn an_origin_says_nothing_else_in_the_policy() {
        check(prop_oneof![mutated("https://shop.example:8443"), texts()], |origin| {
            let response = field(&origin, &Taker::Mock);
            let policy = response.headers()[CONTENT_SECURITY_POLICY].to_str().expect("ASCII");
            if response.status() == StatusCode::OK {
                let own = policy.rsplit_once("frame-ancestors ").expect("it is said").1;
                assert!(own == origin && !own.contains([' ', ';', ',', '\'', '*']), "{policy}");
            } else {
                assert!(response.status() == StatusCode::CONFLICT && policy.ends_with("frame-ancestors 'none'"));
            }
        });
    }
}

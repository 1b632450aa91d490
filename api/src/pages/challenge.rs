//! The way to a challenge of 3-D Secure, and the way back. Merchants and cardholders are told this address, and not the
//! provider's.
//!
//! What the way back brings in its query is anybody's word and is not read. The provider is asked, and the browser goes on.

use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::header::{LOCATION, REFRESH};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use common::flows::{self, Challenge, ChallengedFrom, PageKind};
use common::payments::{self, Payment, Status};
use common::queues;
use queue::Wake;
use tokio::time::{Instant, sleep};
use url::Url;

use super::html::{Text, page};
use super::problem::Problem;
use super::{LOOK_AGAIN, PAYMENT, Path, token};
use crate::app::App;
use crate::envelope::RequestId;

/// How long whoever comes back waits for what the provider says.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The two routes, below the layers of all pages.
pub(super) fn router() -> Router<App> {
    Router::new()
        .route("/pay/a/{token}", get(async |State(app): State<App>, path: Path| go_on(&app, &token(path)?).await))
        .route(
            "/pay/a/{token}/return",
            get(async |State(app): State<App>, id: RequestId, path: Path| come_back(&app, &token(path)?, id).await),
        )
}

/// To the provider, while the question stands.
async fn go_on(app: &App, token: &str) -> Result<Response, Problem> {
    let challenge = flows::challenge(&app.db, token).await?;
    match (&challenge.payment.challenge_url, challenge.payment.status) {
        (Some(url), Status::RequiresAction) => Ok(to(url)),
        _ => Ok(back(&challenge)),
    }
}

/// From the provider, or from anywhere.
async fn come_back(app: &App, token: &str, RequestId(request_id): RequestId) -> Result<Response, Problem> {
    let mut challenge = flows::challenge(&app.db, token).await?;
    if challenge.payment.status == Status::RequiresAction {
        let request_id = Some(request_id.to_string());
        app.push(queues::MONEY, Wake { id: challenge.operation.uuid(), request_id });
        challenge.payment = outcome(app, challenge.payment).await;
    }
    Ok(back(&challenge))
}

/// The payment once it has an outcome, or as it stands when patience ends.
async fn outcome(app: &App, mut payment: Payment) -> Payment {
    let end = Instant::now() + PATIENCE;
    while payment.status == Status::RequiresAction && Instant::now() < end {
        sleep(LOOK_EVERY).await;
        match payments::retrieve(&app.db, payment.account_id, payment.id).await {
            Ok(read) => payment = read,
            Err(error) => tracing::warn!(%error, payment = %payment.id, "the payment could not be read; waiting on"),
        }
    }
    payment
}

/// Where the cardholder came from.
fn back(challenge: &Challenge) -> Response {
    let payment = &challenge.payment;
    match &challenge.from {
        // Relative to /pay/a/{token} it would not hold for /pay/a/{token}/return, so it is from the root.
        ChallengedFrom::Page(PageKind::Invoice, token) => to(&format!("/pay/i/{token}?{PAYMENT}={}", payment.id)),
        ChallengedFrom::Page(PageKind::Link, token) => to(&format!("/pay/l/{token}?{PAYMENT}={}", payment.id)),
        ChallengedFrom::Merchant(url) => match Url::parse(url) {
            Ok(mut url) => {
                url.query_pairs_mut().append_pair("paymentId", &payment.id.to_string());
                to(url.as_str())
            }
            Err(_) => stand(payment),
        },
        ChallengedFrom::Nowhere => stand(payment),
    }
}

/// Nobody has told where to go, so the page says how it stands.
fn stand(payment: &Payment) -> Response {
    let (title, says) = match payment.status {
        Status::Processing | Status::RequiresAction => {
            ("One moment, please", "Your bank has not confirmed the payment yet. This page looks again by itself.")
        }
        Status::Declined => ("The payment was declined", "Nothing was charged. You may close this page."),
        Status::Failed => ("The payment could not be made", "Nothing was charged. You may close this page."),
        Status::Authorized
        | Status::PartiallyAuthorized
        | Status::PendingSettlement
        | Status::Settled
        | Status::PartiallyRefunded
        | Status::Refunded
        | Status::Cancelled
        | Status::Expired => ("Thank you", "Your bank has confirmed the payment. You may close this page."),
    };
    let body = format!("<section role=\"status\">\n<h1>{title}</h1>\n<p>{says}</p>\n</section>\n");
    let mut response = page(StatusCode::OK, Text(title), &body);
    if payment.status.is_under_way() {
        response.headers_mut().insert(REFRESH, HeaderValue::from_static(LOOK_AGAIN));
    }
    response
}

/// An address that was checked when it came to us; one that is no header after all is not gone to.
fn to(place: &str) -> Response {
    match HeaderValue::try_from(place) {
        Ok(place) => (StatusCode::SEE_OTHER, [(LOCATION, place)]).into_response(),
        Err(_) => StatusCode::NOT_FOUND.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use testkit::fuzz::{check, mutated, texts};

    use super::*;

    #[test]
    fn no_address_adds_a_header() {
        check(prop_oneof![mutated("https://shop.example/thanks?a=1"), texts()], |place| {
            let response = to(&place);
            match response.headers().get(LOCATION) {
                Some(location) => {
                    assert_eq!((response.status(), location.as_bytes()), (StatusCode::SEE_OTHER, place.as_bytes()));
                    assert!(!place.contains(['\r', '\n', '\0']), "{place:?}");
                }
                None => assert_eq!(response.status(), StatusCode::NOT_FOUND),
            }
        });
    }
}

//! What browsers load: a stand-in for Stripe's script and its card field, and the page of a challenge.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::header::{ACCESS_CONTROL_ALLOW_ORIGIN, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::json;

use super::ledger::{Account, CardBehavior, id_in};
use super::parameters::{ApiError, Parameters};
use super::{Double, shapes};

pub(super) fn routes() -> Router<Arc<Double>> {
    Router::new()
        .route("/v3/", get(async || ([(CONTENT_TYPE, "text/javascript")], include_str!("stripe.js"))))
        .route("/favicon.ico", get(async || StatusCode::NO_CONTENT))
        .route("/v3/field", get(async || Html(include_str!("field.html"))))
        .route("/v1/payment_methods", post(new_method))
        .route("/challenge/{intent}", get(page).post(answer))
}

/// Creates a card for the holder of a publishable key.
async fn new_method(State(double): State<Arc<Double>>, headers: HeaderMap, form: String) -> Response {
    let parameters = Parameters(url::form_urlencoded::parse(form.as_bytes()).into_owned().collect());
    let key = headers.get("authorization").and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    let answer = (|| {
        shapes::check_request("POST", "/v1/payment_methods", &parameters)?;
        let mut ledger = double.ledger();
        let account = ledger.find_by(key.unwrap_or_default());
        let unknown = || ApiError::new(401, "invalid_request_error", "api_key_invalid", "Invalid API key.");
        let account = account.ok_or_else(unknown)?;
        let behavior = CardBehavior::of_number(parameters.get("card[number]").unwrap_or_default());
        let invalid = || ApiError::new(402, "card_error", "incorrect_number", "Your card number is incorrect.");
        let id = account.new_method(behavior.ok_or_else(invalid)?);
        Ok(account.object(&id).clone())
    })();
    let (status, body) = match answer {
        Ok(method) => (200, method),
        Err::<_, ApiError>(error) => (error.status, error.body()),
    };
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, [(ACCESS_CONTROL_ALLOW_ORIGIN, "*")], Json(body)).into_response()
}

impl Account {
    /// The issuer requires a challenge, after which the cardholder returns to this URL.
    pub(super) fn challenge(&mut self, intent: &str, return_url: &str) {
        let url = format!("{}/challenge/{intent}", self.url);
        let object = self.object(intent);
        object["status"] = json!("requires_action");
        object["next_action"] =
            json!({"type": "redirect_to_url", "redirect_to_url": {"url": url, "return_url": return_url}});
    }
}

async fn page() -> Html<&'static str> {
    Html(
        "<!doctype html><title>Challenge</title><form method=post>\
         <button name=answer value=pass>Complete</button> <button name=answer value=fail>Fail</button></form>",
    )
}

async fn answer(State(double): State<Arc<Double>>, Path(intent): Path<String>, form: String) -> Response {
    let mut ledger = double.ledger();
    let now = ledger.time.now();
    let Some(account) = ledger.find_by(&intent) else { return StatusCode::NOT_FOUND.into_response() };
    let next = account.object(&intent)["next_action"]["redirect_to_url"].clone();
    if next.is_null() {
        return StatusCode::GONE.into_response();
    }
    let passes = form == "answer=pass";
    account.answer_challenge(&intent, passes, now);
    let status = if passes { "succeeded" } else { "failed" };
    let mut back: url::Url = id_in(&next, "return_url").parse().expect("a URL");
    back.query_pairs_mut().append_pair("payment_intent", &intent).append_pair("redirect_status", status);
    Redirect::to(back.as_str()).into_response()
}

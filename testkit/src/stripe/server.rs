//! HTTP: keys and their permissions, idempotency keys, and faults.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use futures_util::stream;
use serde_json::{Value, json};

use super::ledger::Account;
use super::parameters::{ApiError, Parameters};
use super::{Double, api, browser, shapes};

/// A form of ours is smaller.
const MAX_BODY: usize = 64 * 1024;

pub(super) fn router(double: Arc<Double>) -> Router {
    Router::new().merge(browser::routes()).fallback(serve).with_state(double)
}

/// A request executes even if its client disconnects.
#[expect(clippy::disallowed_methods, reason = "a provider executes a request that has arrived")]
async fn serve(State(double): State<Arc<Double>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let Ok(body) = axum::body::to_bytes(body, MAX_BODY).await else { return lost() };
    let executed = async move {
        if head.method == "POST" {
            if let Some(status) = double.faults().refuse {
                let refused = ApiError::new(status, "invalid_request_error", "rate_limit", "Refused unread.");
                return respond(status, &refused.body(), false);
            }
            let mut hold = double.faults.hold.subscribe();
            if *hold.borrow_and_update() {
                double.faults.held.notify_one();
                let _ = hold.wait_for(|hold| !hold).await;
            }
        }
        let response = match &double.remote {
            Some(remote) => {
                let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
                remote.execute(head.method.clone(), path, &head.headers, body.to_vec()).await.unwrap_or_else(|_| lost())
            }
            None => {
                let query = head.uri.query().unwrap_or_default().as_bytes();
                let form = if head.method == "POST" { &*body } else { query };
                let parameters = Parameters(url::form_urlencoded::parse(form).into_owned().collect());
                let (method, path) = (head.method.to_string(), head.uri.path().to_owned());
                Call { method, path, parameters, headers: head.headers }.respond(&double)
            }
        };
        let delay = double.faults().delay;
        tokio::time::sleep(delay).await;
        if head.method == "POST" && take(&mut double.faults().lose) { lost() } else { response }
    };
    tokio::spawn(executed).await.unwrap_or_else(|_| lost())
}

/// The connection ends within the response.
fn lost() -> Response {
    let broken = stream::once(std::future::ready(Err::<Vec<u8>, _>(std::io::Error::other("lost"))));
    Response::new(Body::from_stream(broken))
}

fn respond(status: u16, body: &Value, replayed: bool) -> Response {
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if replayed {
        response.headers_mut().insert("Idempotent-Replayed", "true".parse().expect("a header"));
    }
    response
}

/// Whether a fault is left, of which one is used up.
fn take(left: &mut usize) -> bool {
    let is_left = *left > 0;
    *left = left.saturating_sub(1);
    is_left
}

struct Call {
    method: String,
    path: String,
    parameters: Parameters,
    headers: HeaderMap,
}

impl Call {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    fn secret_key(&self) -> &str {
        self.header("authorization").and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default()
    }

    fn respond(self, double: &Double) -> Response {
        let error = |error: &ApiError| respond(error.status, &error.body(), false);
        if let Err(refused) = self.admit(double) {
            return error(&refused);
        }
        let mut ledger = double.ledger();
        let now = ledger.time.now();
        let account = ledger.account(self.secret_key());
        let key = self.header("idempotency-key").filter(|_| self.method == "POST");
        match key.map_or(Ok(None), |key| self.remembered(account, key)) {
            Ok(Some((status, body))) => respond(status, &body, true),
            Ok(None) => {
                let breaks = key.is_some() && take(&mut double.faults().broken);
                let (status, body) = self.execute(account, key, breaks, now);
                respond(status, &body, false)
            }
            Err(conflict) => error(&conflict),
        }
    }

    /// Checks the key, its permission, the version and the parameters.
    fn admit(&self, double: &Double) -> Result<(), ApiError> {
        let mut ledger = double.ledger();
        let now = ledger.time.now();
        let account = ledger.find(self.secret_key());
        let account = account
            .ok_or_else(|| ApiError::new(401, "invalid_request_error", "api_key_invalid", "Invalid API key."))?;
        account.pass_time(now);
        if let Some(permission) = shapes::permission(&self.method, &self.path)
            && account.forbidden.contains(&*permission)
        {
            let message = format!("The key lacks the permission {permission}.");
            return Err(ApiError::new(403, "invalid_request_error", "more_permissions_required", &message));
        }
        if self.header("stripe-version") != Some(&shapes::API.version) {
            return Err(ApiError::parameter("Stripe-Version", "parameter_invalid", "Another version than documented."));
        }
        shapes::check_request(&self.method, &self.path, &self.parameters)
    }

    /// The operation and its parameters, which belong to an idempotency key.
    fn identity(&self) -> String {
        let mut sorted = self.parameters.0.clone();
        sorted.sort();
        format!("{} {sorted:?}", self.path)
    }

    /// The response that is repeated for a key; none if the request is to be executed.
    fn remembered(&self, account: &Account, key: &str) -> Result<Option<(u16, Value)>, ApiError> {
        let Some(known) = account.remembered.get(key) else { return Ok(None) };
        if known.request != self.identity() {
            let message = "Keys for idempotent requests can only be used with the same parameters.";
            return Err(ApiError::new(400, "idempotency_error", "idempotency_error", message));
        }
        Ok(Some(known.response.clone()))
    }

    /// Executes the request; if it `breaks`, responds as if that had failed.
    fn execute(&self, account: &mut Account, key: Option<&str>, breaks: bool, now: i64) -> (u16, Value) {
        let path: Vec<_> = self.path.trim_start_matches("/v1/").split('/').collect();
        let result = api::execute(account, &self.method, &path, &self.parameters, now);
        let (status, mut body, remembered) = match result {
            _ if breaks => (500, json!({"error": {"type": "api_error", "message": "Something went wrong."}}), true),
            Ok(object) => (200, object, true),
            Err(error) => (error.status, error.body(), error.remembered),
        };
        for expansion in self.parameters.expansions() {
            account.expand(&mut body, expansion);
        }
        if let Some(key) = key.filter(|_| remembered) {
            account.remember(key, self.identity(), (status, body.clone()), now);
        }
        match shapes::check_response(&body) {
            Ok(()) => (status, body),
            Err(why) => (500, json!({"error": {"type": "api_error", "message": why}})),
        }
    }
}

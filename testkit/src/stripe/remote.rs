//! Another server that executes the requests: Stripe itself.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use anyhow::Result;
use axum::body::Body;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use serde_json::Value;

/// Headers of a request that Stripe reads.
const REQUEST: [&str; 4] = ["authorization", "content-type", "idempotency-key", "stripe-version"];
/// Headers of a response that the adapter reads.
const RESPONSE: [&str; 3] = ["content-type", "idempotent-replayed", "stripe-should-retry"];

pub(super) struct Remote {
    url: String,
    http: reqwest::Client,
    created: Mutex<BTreeSet<String>>,
}

impl Remote {
    pub(super) fn new(url: &str) -> Self {
        Self { url: url.to_owned(), http: reqwest::Client::new(), created: Mutex::default() }
    }

    pub(super) fn left(&self) -> Vec<String> {
        self.created.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    pub(super) async fn execute(
        &self,
        method: Method,
        path: &str,
        headers: &HeaderMap,
        body: Vec<u8>,
    ) -> Result<Response> {
        let mut request = self.http.request(method.clone(), format!("{}{path}", self.url)).body(body);
        for name in REQUEST {
            if let Some(value) = headers.get(name) {
                request = request.header(name, value);
            }
        }
        let received = request.send().await?;
        let (status, headers, body) = (received.status(), received.headers().clone(), received.bytes().await?);
        if method == Method::POST
            && let Ok(object) = serde_json::from_slice::<Value>(&body)
            && let Some(id) = object["id"].as_str()
        {
            self.created.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned());
        }
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = StatusCode::from_u16(status.as_u16())?;
        for name in RESPONSE {
            if let Some(value) = headers.get(name) {
                response.headers_mut().insert(name, value.clone());
            }
        }
        Ok(response)
    }
}

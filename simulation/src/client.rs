//! The merchant's client: sends the requests of a history and keeps the responses.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, ensure};
use reqwest::{Client, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::history::{Request, TimedRequest};
use crate::receiver;
use crate::system::API;

/// Longer than api waits for an outcome.
const TIMEOUT: Duration = Duration::from_secs(40);

/// Creates an endpoint that gets every event.
///
/// # Errors
/// If it is not created.
pub async fn create_endpoint(key: &str) -> Result<()> {
    let (url, endpoint) = (SocketAddr::from(API), SocketAddr::from(receiver::ADDRESS));
    let request = Client::new().post(format!("http://{url}/v1/webhook_endpoints")).bearer_auth(key);
    let response = request.json(&json!({"url": format!("http://{endpoint}/hooks")})).send().await?;
    ensure!(response.status() == StatusCode::CREATED, "{}", response.text().await?);
    Ok(())
}

/// What became of a request.
#[derive(Clone, Debug)]
pub enum Response {
    /// Nothing is known: the connection broke, or there was no response in time.
    Lost,
    /// The payment it refers to does not exist.
    Skipped,
    /// The status and the body.
    Received(u16, Value),
}

/// The responses, in the order of the requests.
pub type Responses = Arc<Mutex<Vec<Option<Response>>>>;

/// Sends each request at its time, whether or not earlier ones have been answered.
pub async fn run(requests: Vec<TimedRequest>, key: String, responses: Responses) {
    let (begin, client) = (Instant::now(), Client::new());
    let creating = Arc::new(creating(&requests));
    let mut tasks = JoinSet::new();
    for (index, timed) in requests.into_iter().enumerate() {
        let (client, key, responses, creating) = (client.clone(), key.clone(), responses.clone(), creating.clone());
        tasks.spawn(async move {
            sleep_until(begin + Duration::from_micros(timed.at)).await;
            let id = |kind: &str, number: usize| {
                let responses = responses.lock().unwrap_or_else(PoisonError::into_inner);
                match responses.get(*creating.get(kind)?.get(number)?)? {
                    Some(Response::Received(_, body)) => body["id"].as_str().map(str::to_owned),
                    Some(Response::Lost | Response::Skipped) | None => None,
                }
            };
            let response = match build(&client, &timed.request, id) {
                Some(request) => send(request.bearer_auth(key).timeout(TIMEOUT)).await,
                None => Response::Skipped,
            };
            responses.lock().unwrap_or_else(PoisonError::into_inner)[index] = Some(response);
        });
    }
    while tasks.join_next().await.is_some() {}
}

/// The requests that create objects, by the kind of object.
fn creating(requests: &[TimedRequest]) -> BTreeMap<String, Vec<usize>> {
    let mut creating: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (index, timed) in requests.iter().enumerate() {
        if let Some(kind) = &timed.request.creates {
            creating.entry(kind.clone()).or_default().push(index);
        }
    }
    creating
}

/// The request with ids instead of placeholders; `None` if one of the objects does not exist.
fn build(client: &Client, request: &Request, id: impl Fn(&str, usize) -> Option<String>) -> Option<RequestBuilder> {
    let url = format!("http://{}/v1{}", SocketAddr::from(API), resolve(&request.path, &id)?);
    let builder = match &request.body {
        Some(body) => {
            client.post(url).header("content-type", "application/json").body(resolve(&body.to_string(), &id)?)
        }
        None => client.get(url),
    };
    Some(match &request.key {
        Some(key) => builder.header("idempotency-key", key),
        None => builder,
    })
}

/// Replaces each `{kind.number}`.
fn resolve(text: &str, id: impl Fn(&str, usize) -> Option<String>) -> Option<String> {
    let mut parts = text.split('{');
    let mut resolved = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let placeholder = part.split_once('}').and_then(|(name, rest)| {
            let (kind, number) = name.split_once('.')?;
            Some((kind, number.parse().ok()?, rest))
        });
        match placeholder {
            Some((kind, number, rest)) => resolved += &(id(kind, number)? + rest),
            None => resolved += &format!("{{{part}"),
        }
    }
    Some(resolved)
}

async fn send(request: RequestBuilder) -> Response {
    let Ok(response) = request.send().await else { return Response::Lost };
    let status = response.status().as_u16();
    match response.json().await {
        Ok(body) => Response::Received(status, body),
        Err(_) => Response::Lost,
    }
}

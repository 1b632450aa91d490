//! The merchant's client and the cardholders' browsers: send the requests of a history and keep the responses.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};
use url::Url;

use crate::card_field::CardField;
use crate::clock;
use crate::history::{Content, Request, TimedRequest};
use crate::receiver;
use crate::shop::Shop;
use crate::system::{API, GATEWAY_PAGES};

/// The pages of the card gateway on which cardholders answer challenges.
pub const BANK: &str = "/services/3ds/";

/// Longer than api waits for an outcome.
const TIMEOUT: Duration = Duration::from_secs(40);

/// A request waits this long, this often, for an object that it refers to.
const WAIT: Duration = Duration::from_millis(200);
const WAITS: usize = 10;

/// Creates an endpoint that gets every event. Returns its secret.
///
/// # Errors
/// If it is not created.
pub async fn create_endpoint(key: &str) -> Result<String> {
    let (url, endpoint) = (SocketAddr::from(API), SocketAddr::from(receiver::ADDRESS));
    let request = Client::new().post(format!("http://{url}/v1/webhook_endpoints")).bearer_auth(key);
    let response = request.json(&json!({"url": format!("http://{endpoint}/hooks")})).send().await?;
    let (status, body) = (response.status(), response.json::<Value>().await?);
    ensure!(status == StatusCode::CREATED, "{body}");
    Ok(body["secret"].as_str().context("a secret")?.to_owned())
}

/// What became of a request.
#[derive(Clone, Debug)]
pub enum Response {
    /// Nothing is known: the connection broke, or there was no response in time.
    Lost,
    /// An object it refers to does not exist. It was not sent.
    Skipped,
    /// A response.
    Received(ReceivedResponse),
}

/// A response of the API or of a page.
#[derive(Clone, Debug, Default)]
pub struct ReceivedResponse {
    /// The path and the content, with the history's tokens.
    pub sent: (String, Value),
    /// The status.
    pub status: u16,
    /// By lower-case name.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub text: String,
    /// The body, or null if it is not JSON.
    pub json: Value,
    /// The virtual time at which the request was sent.
    pub sent_us: u64,
    /// The virtual time at which the response arrived.
    pub received_us: u64,
}

impl ReceivedResponse {
    /// Whether it is a success.
    pub fn succeeded(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// What later requests can refer to: the object, or what a redirect shows of one: a payment's challenge, and from
    /// there the `bank`, where it is answered.
    fn shown(&self) -> Option<Value> {
        if self.succeeded() {
            return Some(self.json.clone());
        }
        let page = Url::parse(&format!("http://{}{}", SocketAddr::from(API), self.sent.0)).ok()?;
        let to = page.join(self.headers.get("location")?).ok()?;
        match to.path() {
            path if path.starts_with("/pay/a/") => Some(json!({"nextAction": {"url": to.as_str()}})),
            path if path.starts_with(BANK) => Some(json!({"bank": to.as_str()})),
            _ => None,
        }
    }

    /// Whether it repeats the first response to a key.
    pub fn is_replay(&self) -> bool {
        self.headers.contains_key("idempotent-replayed")
    }
}

/// The responses, in the order of the requests.
pub type Responses = Arc<Mutex<Vec<Option<Response>>>>;

/// Sends each request at its time, whether or not earlier ones have responses.
pub async fn run(requests: Vec<TimedRequest>, shop: Shop, responses: Responses) {
    let (begin, client, field) = (Instant::now(), client(), CardField::new(shop.clone()));
    let creating = Arc::new(creating(&requests));
    let mut tasks = JoinSet::new();
    for (index, timed) in requests.into_iter().enumerate() {
        let (client, key, responses, creating) =
            (client.clone(), shop.key.clone(), responses.clone(), creating.clone());
        let field = field.clone();
        tasks.spawn(async move {
            sleep_until(begin + Duration::from_micros(timed.at)).await;
            let object = |kind: &str, number: usize| {
                let responses = responses.lock().unwrap_or_else(PoisonError::into_inner);
                let created = |index: &usize| match responses.get(*index) {
                    Some(Some(Response::Received(response))) => response.shown(),
                    Some(Some(Response::Lost | Response::Skipped) | None) | None => None,
                };
                let (before, after) = creating.get(kind)?.split_at_checked(number + 1)?;
                before.iter().rev().chain(after).find_map(created)
            };
            let mut response = Response::Skipped;
            for _ in 0..WAITS {
                if let Some(request) = resolved(&timed.request, object) {
                    if let Some(content) = field.fill(&client, &timed, &request).await {
                        response = send(&client, request, content, &key).await;
                    }
                    break;
                }
                sleep(WAIT).await;
            }
            responses.lock().unwrap_or_else(PoisonError::into_inner)[index] = Some(response);
        });
    }
    while tasks.join_next().await.is_some() {}
}

/// A client that does not follow redirects and gives up after a while.
pub fn client() -> Client {
    Client::builder().redirect(Policy::none()).timeout(TIMEOUT).build().expect("the defaults are valid")
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

/// The request without placeholders; `None` if one of the objects does not exist.
fn resolved(request: &Request, object: impl Fn(&str, usize) -> Option<Value>) -> Option<Request> {
    let content = match &request.content {
        Content::None => Content::None,
        Content::Delete => Content::Delete,
        Content::Json(body) => Content::Json(serde_json::from_str(&resolve(&body.to_string(), &object)?).ok()?),
        Content::Form(form) => Content::Form(resolve(form, &object)?),
    };
    Some(Request { content, path: resolve(&request.path, &object)?, ..request.clone() })
}

/// Replaces each `{kind.number}`, `{kind.number.url}`, `{kind.number.bank}`, `{kind.number.nextAction}` and
/// `{kind.number.field}`.
fn resolve(text: &str, object: impl Fn(&str, usize) -> Option<Value>) -> Option<String> {
    let mut parts = text.split('{');
    let mut resolved = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let placeholder = part.split_once('}').and_then(|(name, rest)| {
            let mut words = name.split('.');
            Some((words.next()?, words.next()?.parse().ok()?, words.next(), rest))
        });
        match placeholder {
            Some((kind, number, field, rest)) => {
                let object = object(kind, number)?;
                let value = &object[field.unwrap_or("id")];
                let path = |url: &Value| Some(Url::parse(url.as_str()?).ok()?.path().to_owned());
                resolved += &match field {
                    Some("url" | "bank") => path(value)?,
                    Some("nextAction") => path(&value["url"])?,
                    Some(_) | None => value.as_str()?.to_owned(),
                };
                resolved += rest;
            }
            None => resolved += &format!("{{{part}"),
        }
    }
    Some(resolved)
}

/// Sends a request without placeholders, with `content` for its own.
pub async fn send(client: &Client, request: Request, content: Content, secret_key: &str) -> Response {
    let server = if request.path.starts_with(BANK) { GATEWAY_PAGES } else { API };
    let url = format!("http://{}{}", SocketAddr::from(server), request.path);
    let builder: RequestBuilder = match content {
        Content::None if request.path.starts_with("/v1") => client.get(url).bearer_auth(secret_key),
        Content::None => client.get(url),
        Content::Delete => client.delete(url).bearer_auth(secret_key),
        Content::Json(body) => client.post(url).bearer_auth(secret_key).json(&body),
        Content::Form(form) => client.post(url).header("content-type", "application/x-www-form-urlencoded").body(form),
    };
    let builder = match &request.key {
        Some(key) => builder.header("idempotency-key", key),
        None => builder,
    };
    let sent_us = clock::now_us();
    let Ok(response) = builder.send().await else { return Response::Lost };
    let status = response.status().as_u16();
    let text = |value: &reqwest::header::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let headers = response.headers().iter().map(|(name, value)| (name.to_string(), text(value))).collect();
    let Ok(text) = response.text().await else { return Response::Lost };
    let json = serde_json::from_str(&text).unwrap_or_default();
    let received_us = clock::now_us();
    Response::Received(ReceivedResponse {
        sent: (request.path, request.content.into_value()),
        status,
        headers,
        text,
        json,
        sent_us,
        received_us,
    })
}

//! The merchant's client: sends the requests of a history and keeps the responses.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::{Client, RequestBuilder};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::history::{Request, TimedRequest};
use crate::system::API;

/// Longer than api waits for an outcome.
const TIMEOUT: Duration = Duration::from_secs(40);

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
    let mut tasks = JoinSet::new();
    let creating: Vec<usize> =
        requests.iter().enumerate().filter(|(_, timed)| is_pay(&timed.request)).map(|(index, _)| index).collect();
    for (index, timed) in requests.into_iter().enumerate() {
        let (client, key, responses, creating) = (client.clone(), key.clone(), responses.clone(), creating.clone());
        tasks.spawn(async move {
            sleep_until(begin + Duration::from_micros(timed.at)).await;
            let payment = |number: usize| {
                let responses = responses.lock().unwrap_or_else(PoisonError::into_inner);
                match responses.get(*creating.get(number)?)? {
                    Some(Response::Received(_, body)) => body["id"].as_str().map(str::to_owned),
                    Some(Response::Lost | Response::Skipped) | None => None,
                }
            };
            let response = match build(&client, &timed.request, payment) {
                Some(request) => send(request.bearer_auth(key).timeout(TIMEOUT)).await,
                None => Response::Skipped,
            };
            responses.lock().unwrap_or_else(PoisonError::into_inner)[index] = Some(response);
        });
    }
    while tasks.join_next().await.is_some() {}
}

const fn is_pay(request: &Request) -> bool {
    matches!(request, Request::Pay { .. })
}

fn build(client: &Client, request: &Request, payment: impl Fn(usize) -> Option<String>) -> Option<RequestBuilder> {
    let base = format!("http://{}/v1/payments", SocketAddr::from(API));
    let change = |number: usize, action: &str, body: Value| {
        Some(client.post(format!("{base}/{}/{action}", payment(number)?)).json(&body))
    };
    match request {
        Request::Pay { amount, token, capture, key } => {
            let body = json!({"amount": amount, "currency": "USD", "paymentToken": token, "capture": capture});
            let request = client.post(base).json(&body);
            Some(match key {
                Some(key) => request.header("idempotency-key", format!("order-{key}")),
                None => request,
            })
        }
        Request::Capture { payment, amount: Some(amount) } => change(*payment, "capture", json!({"amount": amount})),
        Request::Capture { payment, amount: None } => change(*payment, "capture", json!({})),
        Request::Void { payment } => change(*payment, "void", json!({})),
        Request::Refund { payment, amount } => change(*payment, "refund", json!({"amount": amount})),
        Request::Retrieve { payment: number } => Some(client.get(format!("{base}/{}", payment(*number)?))),
    }
}

async fn send(request: RequestBuilder) -> Response {
    let Ok(response) = request.send().await else { return Response::Lost };
    let status = response.status().as_u16();
    match response.json().await {
        Ok(body) => Response::Received(status, body),
        Err(_) => Response::Lost,
    }
}

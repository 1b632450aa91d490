//! The merchants' webhook endpoints, which record deliveries, and fail or hang on the first attempt of some events.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anyhow::{Result, ensure};
use serde_json::json;

use super::{shop::Shop, time::Clock};
use crate::{
    Client,
    receiver::{Receiver, Reply, Request},
};

/// One delivery as it arrived.
#[derive(Clone, Debug, Default)]
pub(super) struct Delivery {
    pub(super) endpoint: usize,
    pub(super) event: String,
    pub(super) body: String,
    /// Whether the response was 200.
    pub(super) accepted: bool,
    /// When it arrived, by the run's clock.
    pub(super) at: i64,
}

#[derive(Debug, Default)]
struct Received {
    deliveries: Vec<Delivery>,
    /// The events, by endpoint, whose first attempt was not accepted.
    failed: BTreeSet<(usize, String)>,
}

/// A server that stops when dropped.
pub(super) struct Endpoints {
    server: Receiver,
    received: Arc<Mutex<Received>>,
}

impl std::fmt::Debug for Endpoints {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoints").finish_non_exhaustive()
    }
}

impl Endpoints {
    /// Starts to serve at an address of this machine.
    pub(super) async fn start(address: &str, clock: Clock) -> Result<Self> {
        let received = Arc::new(Mutex::new(Received::default()));
        let shared = Arc::clone(&received);
        let server = Receiver::start_at(address, move |request| lock(&shared).reply(request, clock)).await?;
        Ok(Self { server, received })
    }

    /// Registers the two endpoints of a shop at an api.
    pub(super) async fn register(&self, index: usize, shop: &Shop, api: &str) -> Result<()> {
        let api = Client::new(api)?.bearer(&shop.account.secret_key)?;
        for endpoint in [index * 2, index * 2 + 1] {
            let url = self.server.url(&format!("/{endpoint}"));
            let response = api.post("/v1/webhook_endpoints", json!({"url": url})).await?;
            ensure!(response.status == 201, "cannot create an endpoint: {}", response.body);
            shop.add_secrets(response.body["secret"].as_str().map(str::to_owned));
        }
        Ok(())
    }

    pub(super) fn deliveries(&self) -> Vec<Delivery> {
        lock(&self.received).deliveries.clone()
    }
}

fn lock(received: &Mutex<Received>) -> MutexGuard<'_, Received> {
    received.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Received {
    /// Only endpoints with odd numbers misbehave, and only on the first attempt.
    fn reply(&mut self, request: &Request, clock: Clock) -> Reply {
        let Ok(endpoint) = request.path.trim_start_matches('/').parse() else { return Reply::status(404) };
        let event = request.header("webhook-id").to_owned();
        let failure = failure(&event).filter(|_| endpoint % 2 == 1 && self.failed.insert((endpoint, event.clone())));
        let body = String::from_utf8_lossy(&request.body).into_owned();
        self.deliveries.push(Delivery { endpoint, event, body, accepted: failure.is_none(), at: clock.now() });
        failure.unwrap_or_else(Reply::ok)
    }
}

/// How the first attempt of an event fails, if it does.
fn failure(event: &str) -> Option<Reply> {
    let number = event.bytes().fold(7u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
    match number % 40 {
        0..3 => Some(Reply::status(503)),
        3 => Some(Reply::Disconnect.after(20_000)),
        4 => Some(Reply::Disconnect),
        _ => None,
    }
}

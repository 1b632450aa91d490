//! The merchant's webhook endpoint: records what it has acknowledged, and fails at times until it is healed.

use std::collections::BTreeMap;
use std::future::pending;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use axum::{Router, serve};
use tokio::net::TcpListener;

use crate::random::Random;

/// Where the endpoint listens. Test accounts may have endpoints on loopback.
pub const ADDRESS: ([u8; 4], u16) = ([127, 0, 0, 1], 7000);

/// The state of the endpoint.
#[derive(Clone)]
pub struct Receiver {
    /// How often each event was acknowledged, by its id.
    acknowledged: Arc<Mutex<BTreeMap<String, u64>>>,
    random: Arc<Mutex<Random>>,
    healthy: Arc<AtomicBool>,
}

impl Receiver {
    /// An endpoint whose failures `random` determines.
    pub fn new(random: Random) -> Self {
        Self {
            acknowledged: Arc::default(),
            random: Arc::new(Mutex::new(random)),
            healthy: Arc::new(AtomicBool::new(false)),
        }
    }

    /// From now on it acknowledges everything.
    pub fn heal(&self) {
        self.healthy.store(true, Ordering::Relaxed);
    }

    /// How often each event was acknowledged, by its id.
    pub fn acknowledged(&self) -> BTreeMap<String, u64> {
        self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Serves the endpoint.
    ///
    /// # Errors
    /// If the listener fails.
    pub async fn run(self) -> Result<()> {
        let listener = TcpListener::bind(SocketAddr::from(ADDRESS)).await.context("the endpoint")?;
        serve(listener, Router::new().fallback(post(receive)).with_state(self)).await.context("the endpoint")
    }
}

async fn receive(State(receiver): State<Receiver>, headers: HeaderMap) -> StatusCode {
    let outcome = receiver.random.lock().unwrap_or_else(PoisonError::into_inner).below(16);
    match outcome {
        _ if receiver.healthy.load(Ordering::Relaxed) => {}
        0 => pending().await,
        1 | 2 => return StatusCode::INTERNAL_SERVER_ERROR,
        _ => {}
    }
    let Some(event) = headers.get("webhook-id").and_then(|id| id.to_str().ok()) else {
        return StatusCode::BAD_REQUEST;
    };
    let mut acknowledged = receiver.acknowledged.lock().unwrap_or_else(PoisonError::into_inner);
    *acknowledged.entry(event.to_owned()).or_default() += 1;
    StatusCode::NO_CONTENT
}

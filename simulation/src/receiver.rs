//! The merchant's webhook endpoint: records what arrives, and fails at times until it is healed.

use std::future::pending;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result};
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use axum::{Router, serve};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use tokio::net::TcpListener;

use crate::random::Random;

/// Where the endpoint listens. Test accounts may have endpoints on loopback.
pub const ADDRESS: ([u8; 4], u16) = ([127, 0, 0, 1], 7000);

/// A request that arrived at the endpoint.
#[derive(Clone, Debug, Default)]
pub struct Delivery {
    /// `webhook-id`.
    pub id: String,
    /// `webhook-timestamp`.
    pub timestamp: String,
    /// `webhook-signature`.
    pub signature: String,
    /// The body as sent.
    pub body: String,
    /// Whether the response was a success.
    pub acknowledged: bool,
}

impl Delivery {
    /// Whether one of the signatures is right, as docs/webhooks.md describes.
    pub fn is_signed_with(&self, secret: &str) -> bool {
        let Ok(key) = BASE64.decode(secret.trim_start_matches("whsec_")) else { return false };
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&key) else { return false };
        mac.update(format!("{}.{}.{}", self.id, self.timestamp, self.body).as_bytes());
        let expected = format!("v1,{}", BASE64.encode(mac.finalize().into_bytes()));
        self.signature.split(' ').any(|one| one == expected)
    }
}

/// The state of the endpoint.
#[derive(Clone)]
pub struct Receiver {
    deliveries: Arc<Mutex<Vec<Delivery>>>,
    random: Arc<Mutex<Random>>,
    healthy: Arc<AtomicBool>,
}

impl Receiver {
    /// An endpoint whose failures `random` determines.
    pub fn new(random: Random) -> Self {
        Self {
            deliveries: Arc::default(),
            random: Arc::new(Mutex::new(random)),
            healthy: Arc::new(AtomicBool::new(false)),
        }
    }

    /// From now on it acknowledges everything.
    pub fn heal(&self) {
        self.healthy.store(true, Ordering::Relaxed);
    }

    /// Everything that arrived, in order.
    pub fn deliveries(&self) -> Vec<Delivery> {
        self.deliveries.lock().unwrap_or_else(PoisonError::into_inner).clone()
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

async fn receive(State(receiver): State<Receiver>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let outcome = receiver.random.lock().unwrap_or_else(PoisonError::into_inner).below(16);
    let healthy = receiver.healthy.load(Ordering::Relaxed);
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    receiver.deliveries.lock().unwrap_or_else(PoisonError::into_inner).push(Delivery {
        id: header("webhook-id"),
        timestamp: header("webhook-timestamp"),
        signature: header("webhook-signature"),
        body: String::from_utf8_lossy(&body).into_owned(),
        acknowledged: healthy || outcome > 2,
    });
    match outcome {
        _ if healthy => StatusCode::NO_CONTENT,
        0 => pending().await,
        1 | 2 => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::NO_CONTENT,
    }
}

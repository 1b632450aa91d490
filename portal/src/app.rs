//! The state that every page shares.

use std::net::IpAddr;
use std::sync::Arc;

use anyhow::Result;
use api::InProcess;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use axum::response::Response;
use domain::accounts::Caller;
use foundation::clock::Clock;
use foundation::config;
use foundation::crypto::{hex, sha256};
use foundation::rate_limits::{Acquisition, Bucket, RateLimits};
use serde_json::Value;

use crate::failure::Failure;

/// Wrong passwords for one e-mail address at once; then one a minute.
const PASSWORDS: u32 = 20;
/// Sign-ins from one address at once, in seconds of its rate.
const ADDRESS_BURST: u32 = 4;
/// The longest response of /v1 for a page: a hundred objects.
const MAX_RESPONSE: usize = 32 << 20;

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) api: InProcess,
    pub(crate) clock: Clock,
    pub(crate) url: Arc<str>,
    limits: RateLimits,
    /// Sign-ins per second of one address.
    address_rate: u32,
}

impl App {
    pub(crate) fn new(api: InProcess, url: &str) -> Result<Self> {
        let limits = RateLimits::new(Some(&config::redis()?), config::rate_limit_timeout()?);
        let address_rate = config::api_limits()?.unknown;
        Ok(Self { api, clock: Clock::system(), url: url.into(), limits, address_rate })
    }

    /// The response of /v1 to a `GET`, and its body if it is JSON.
    pub(crate) async fn get(&self, caller: &Arc<Caller>, path: &str) -> Result<Value, Failure> {
        let response = self.respond(caller, path, "application/json").await?;
        let status = response.status();
        let body = to_bytes(response.into_body(), MAX_RESPONSE).await.map_err(Failure::internal)?;
        match status {
            StatusCode::OK => serde_json::from_slice(&body).map_err(Failure::internal),
            StatusCode::NOT_FOUND => Err(Failure::NotFound),
            StatusCode::FORBIDDEN => Err(Failure::Forbidden),
            StatusCode::TOO_MANY_REQUESTS => Err(Failure::TooMany),
            _ if status.is_client_error() => {
                let error: Value = serde_json::from_slice(&body).map_err(Failure::internal)?;
                Err(Failure::Invalid(error["error"]["message"].as_str().unwrap_or_default().to_owned()))
            }
            _ => Err(Failure::internal(format!("{status} from {path}"))),
        }
    }

    /// The response of /v1 to a `GET`, whatever it is.
    pub(crate) async fn respond(&self, caller: &Arc<Caller>, path: &str, accept: &str) -> Result<Response, Failure> {
        let request = Request::get(path).header("accept", accept).body(Body::empty()).map_err(Failure::internal)?;
        Ok(self.api.call(Arc::clone(caller), request).await)
    }

    /// Whether this address may try to sign in with this e-mail address.
    pub(crate) async fn may_sign_in(&self, address: IpAddr, email: &str) -> bool {
        let burst = self.address_rate.saturating_mul(ADDRESS_BURST);
        let mut buckets = Bucket::of_address("sign-in", address, self.address_rate, burst);
        buckets.push(of_user(email));
        matches!(self.limits.acquire(&buckets).await, Acquisition::Allowed { .. })
    }

    /// The password was right, so the attempt does not count.
    pub(crate) async fn signed_in(&self, email: &str) {
        self.limits.restore(&[of_user(email)]).await;
    }
}

/// By a hash, because Redis gets no personal data.
fn of_user(email: &str) -> Bucket {
    Bucket::per_minute(format!("password:{}", hex(&sha256(email.to_lowercase().as_bytes()))), 1, PASSWORDS)
}

//! The state that every page shares.

use std::net::IpAddr;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use api::{ExpectedVersion, InProcess};
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use axum::response::Response;
use domain::accounts::Caller;
use domain::users::PasskeySite;
use foundation::clock::Clock;
use foundation::config;
use foundation::crypto::{hex, sha256};
use foundation::id::UserId;
use foundation::network::client_network;
use foundation::rate_limits::{Acquisition, Bucket, RateLimits};
use serde_json::Value;
use url::Url;

use crate::failure::Failure;
use crate::passkeys;
use crate::texts::message;

/// Wrong passwords for one e-mail address at once, from all networks, and from one network or a browser that has signed in
/// before; then one a minute.
const PASSWORDS: u32 = 50;
const PASSWORDS_OF_NETWORK: u32 = 10;
/// Wrong codes of one user at once, and then per hour: who has the password guesses a code in decades. Devices that have
/// passed this second factor before have as many each.
const CODES: u32 = 20;
const CODES_PER_HOUR: u32 = 2;
/// Pages and forms of a user at once, and per second.
const PAGES: u32 = 300;
const PAGES_PER_SECOND: u32 = 50;
/// Requests without a session from one address at once, in seconds of its rate.
const ADDRESS_BURST: u32 = 4;
/// The longest response of /v1 for a page: a hundred objects.
const MAX_RESPONSE: usize = 32 << 20;

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) api: InProcess,
    pub(crate) clock: Clock,
    /// The portal's origin, as browsers send it.
    pub(crate) origin: Arc<str>,
    /// The host of the portal, with its port, as users know it.
    pub(crate) host: Arc<str>,
    /// Where passkeys are valid; `None` if the portal's host has no name.
    pub(crate) passkeys: Option<Arc<PasskeySite>>,
    /// Whether the service sends e-mails: to customers, and invitations.
    pub(crate) sends_mail: bool,
    limits: RateLimits,
    /// Requests without a session per second of one address; and wrong passwords and codes per minute, with whatever e-mail
    /// addresses, because each takes some time of a processor.
    address_rate: u32,
}

/// An attempt to sign in.
#[derive(Clone, Copy)]
pub(crate) struct Attempt<'a> {
    pub(crate) address: IpAddr,
    pub(crate) email: &'a str,
    /// The name of the device, if the user has signed in with it before.
    pub(crate) device: Option<&'a str>,
    /// With a code: of whom, and the name of the device if it has passed the same second factor before.
    pub(crate) code: Option<(UserId, Option<&'a str>)>,
}

impl App {
    pub(crate) fn new(api: InProcess, url: &str) -> Result<Self> {
        let parsed = Url::parse(url).context("PORTAL_URL is not a URL")?;
        ensure!(parsed.path() == "/" && parsed.query().is_none(), "PORTAL_URL must have no path");
        let origin = parsed.origin().ascii_serialization();
        let limits = RateLimits::new(Some(&config::redis()?), config::rate_limit_timeout()?);
        let address_rate = config::api_limits()?.unknown;
        let host = parsed.authority().into();
        let sends_mail = config::optional("MAIL_FROM")?.is_some();
        let passkeys = passkeys::site(&parsed).map(Arc::new);
        let (clock, origin) = (Clock::system(), origin.into());
        Ok(Self { api, clock, origin, host, passkeys, sends_mail, limits, address_rate })
    }

    /// The body of /v1's response to a `GET`.
    pub(crate) async fn get(&self, caller: &Arc<Caller>, path: &str) -> Result<Value, Failure> {
        Ok(read(self.respond(caller, path, "application/json").await?).await?.1)
    }

    /// The status and the body of /v1's response to a change of an object that has this version.
    pub(crate) async fn send(
        &self,
        caller: &Arc<Caller>,
        (method, path): (&str, &str),
        key: Option<String>,
        version: ExpectedVersion,
        body: Value,
    ) -> Result<(StatusCode, Value), Failure> {
        let request = Request::builder().method(method).uri(path).extension(version);
        let mut request = request.header("content-type", "application/json");
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let body = if method == "DELETE" { Body::empty() } else { body.to_string().into() };
        let request = request.body(body).map_err(Failure::internal)?;
        read(self.api.call(Arc::clone(caller), request).await).await
    }

    /// The response of /v1 to a `GET`.
    pub(crate) async fn respond(&self, caller: &Arc<Caller>, path: &str, accept: &str) -> Result<Response, Failure> {
        let request = Request::get(path).header("accept", accept).body(Body::empty()).map_err(Failure::internal)?;
        let response = self.api.call(Arc::clone(caller), request).await;
        if response.status() == StatusCode::OK {
            return Ok(response);
        }
        let (status, body) = read(response).await?;
        Err(match status {
            StatusCode::NOT_FOUND => Failure::NotFound,
            StatusCode::FORBIDDEN => Failure::Forbidden,
            StatusCode::TOO_MANY_REQUESTS => Failure::TooMany,
            StatusCode::SERVICE_UNAVAILABLE => Failure::Unavailable,
            _ if status.is_client_error() => {
                Failure::Invalid(message(body["error"]["message"].as_str().unwrap_or_default()))
            }
            // Without the query, which may contain personal data.
            _ => Failure::internal(format!("{status} from {}", path.split('?').next().unwrap_or_default())),
        })
    }

    /// Whether a client at this address, of which nothing else is known yet, may send a request.
    pub(crate) async fn may_ask(&self, address: IpAddr) -> bool {
        self.acquire(&self.of_address(address)).await
    }

    fn of_address(&self, address: IpAddr) -> Vec<Bucket> {
        let burst = self.address_rate.saturating_mul(ADDRESS_BURST);
        Bucket::of_address("portal-address", address, self.address_rate, burst)
    }

    /// Whether this attempt may be made.
    pub(crate) async fn may_sign_in(&self, attempt: Attempt<'_>) -> bool {
        self.acquire(&self.of_attempt(attempt)).await
    }

    /// The password or the code was right, or was not checked, so the attempt does not count.
    pub(crate) async fn restore_attempt(&self, attempt: Attempt<'_>) {
        self.limits.restore(&self.of_attempt(attempt)).await;
    }

    /// By a hash, because Redis gets no personal data. Who guesses from one network does not lock out the user in another, and
    /// who guesses from many does not lock out the user's own browser.
    fn of_attempt(&self, Attempt { address, email, device, code }: Attempt<'_>) -> Vec<Bucket> {
        let user = hex(&sha256(email.to_lowercase().as_bytes()));
        let of = |part: &str| Bucket::per_minute(format!("password:{user}:{part}"), 1, PASSWORDS_OF_NETWORK);
        let mut buckets = match device {
            Some(device) => vec![of(device)],
            None => {
                let all = Bucket::per_minute(format!("password:{user}"), 1, PASSWORDS);
                let mut buckets = self.of_attempts(address);
                buckets.extend([all, of(&client_network(address).to_string())]);
                buckets
            }
        };
        buckets.extend(code.map(|(user, device)| {
            let name = device.map_or_else(|| format!("code:{user}"), |device| format!("code:{user}:{device}"));
            Bucket::per_hour(name, CODES_PER_HOUR, CODES)
        }));
        buckets
    }

    /// What fails at an address, for whatever user.
    fn of_attempts(&self, address: IpAddr) -> Vec<Bucket> {
        Bucket::of_address_per_minute("portal-attempts", address, self.address_rate, self.address_rate)
    }

    /// Whether an attempt with a passkey may be made. Nobody knows whose it is before it is found.
    pub(crate) async fn may_try_passkey(&self, address: IpAddr) -> bool {
        self.acquire(&self.of_attempts(address)).await
    }

    /// It was accepted, or was not checked, so the attempt does not count.
    pub(crate) async fn restore_passkey(&self, address: IpAddr) {
        self.limits.restore(&self.of_attempts(address)).await;
    }

    /// Whether this user may open a page or send a form. The request no longer counts for its address.
    pub(crate) async fn may_open(&self, user: UserId, address: IpAddr) -> bool {
        let pages = [Bucket::per_second(format!("portal:{user}"), PAGES_PER_SECOND, PAGES)];
        let acquisition = self.limits.restore_and_acquire(&pages, &self.of_address(address)).await;
        matches!(acquisition, Acquisition::Allowed { .. })
    }

    async fn acquire(&self, buckets: &[Bucket]) -> bool {
        matches!(self.limits.acquire(buckets).await, Acquisition::Allowed { .. })
    }

    /// Whether this user may try to confirm the password.
    pub(crate) async fn may_confirm(&self, user: UserId) -> bool {
        self.acquire(&of_confirmation(user)).await
    }

    /// It was right, or was not checked, so the attempt does not count.
    pub(crate) async fn restore_confirmation(&self, user: UserId) {
        self.limits.restore(&of_confirmation(user)).await;
    }
}

async fn read(response: Response) -> Result<(StatusCode, Value), Failure> {
    let status = response.status();
    let body = to_bytes(response.into_body(), MAX_RESPONSE).await.map_err(Failure::internal)?;
    Ok((status, serde_json::from_slice(&body).map_err(Failure::internal)?))
}

/// The password is entered again within a session.
fn of_confirmation(user: UserId) -> [Bucket; 1] {
    [Bucket::per_minute(format!("confirm:{user}"), 1, PASSWORDS_OF_NETWORK)]
}

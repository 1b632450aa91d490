//! The client: one per process. It pools connections and sends each request once.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::{HeaderMap, Method, Request};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::time::Instant;
use tokio_rustls::rustls::pki_types::CertificateDer;

use super::addresses::Reach;
use super::connector::{self, Connector};
use super::failure::{ExchangeError, Failure};
use super::resolver::{LimitedResolver, Resolver, SystemResolver};
use super::response::{self, TruncatedResponse};
use super::target::Target;
use foundation::clock::Clock;

/// Idle connections are closed before common servers (Node.js, Apache: five seconds) close them, because a request sent
/// on a closing connection is lost.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);
/// Idle connections per host.
const MAX_IDLE_PER_HOST: usize = 32;
/// Bytes of a response head. The limit is checked after each read, so one read more is possible.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// Headers of a response.
const MAX_HEADERS: usize = 100;

pub(super) type Http = Client<Connector, Full<Bytes>>;

/// Posts to URLs chosen by merchants. Cheap to clone; clones share their connections.
#[derive(Clone)]
pub struct Egress {
    public: Http,
    /// Has its own connection pool: a target without loopback permission must not reuse a connection opened with it.
    loopback: Http,
    timeout: Duration,
    clock: Clock,
}

impl Egress {
    /// `timeout` covers a whole request. The clock converts `Retry-After` dates to durations.
    pub fn new(timeout: Duration, clock: Clock) -> Self {
        Self::with(timeout, clock, Arc::new(SystemResolver), Vec::new())
    }

    /// With a custom resolver, and with certificate authorities in addition to the public ones. An authority that
    /// cannot be parsed is ignored, and so not trusted.
    pub fn with(
        timeout: Duration,
        clock: Clock,
        resolver: Arc<dyn Resolver>,
        authorities: Vec<CertificateDer<'static>>,
    ) -> Self {
        let tls = connector::tls(authorities);
        let resolver: Arc<dyn Resolver> = Arc::new(LimitedResolver::new(resolver));
        let http = |reach| http(Connector::new(resolver.clone(), tls.clone(), reach, timeout));
        Self { public: http(Reach::Public), loopback: http(Reach::Loopback), timeout, clock }
    }

    /// Posts the body once and returns the response, whatever its status. Adds only the headers `Host` and
    /// `Content-Length`.
    ///
    /// # Errors
    /// There was no complete response within the timeout, which spans name resolution, connection, request and
    /// response.
    pub async fn post(&self, target: &Target, headers: HeaderMap, body: Bytes) -> Result<TruncatedResponse, Failure> {
        let started = Instant::now();
        let exchange = self.exchange(target, headers, body);
        let outcome = tokio::time::timeout(self.timeout, exchange).await;
        let duration = started.elapsed();
        match outcome.unwrap_or_else(|_| Err(ExchangeError::timeout(self.timeout))) {
            Ok(response) => Ok(TruncatedResponse { duration, ..response }),
            Err(ExchangeError { kind, message }) => Err(Failure { kind, message, duration }),
        }
    }

    async fn exchange(
        &self,
        target: &Target,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<TruncatedResponse, ExchangeError> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = target.uri().clone();
        *request.headers_mut() = headers;
        let http = if target.allows_loopback() { &self.loopback } else { &self.public };
        let received = http.request(request).await.map_err(|error| ExchangeError::of(&error))?;
        let status = received.status().as_u16();
        let retry_after = response::retry_after(received.headers(), &self.clock);
        let body = response::read(received.into_body()).await.map_err(|error| ExchangeError::of(&error))?;
        Ok(TruncatedResponse { status, retry_after, body, duration: Duration::ZERO })
    }
}

pub(super) fn http(connector: Connector) -> Http {
    Client::builder(TokioExecutor::new())
        // By default the client retries a request that a closing connection returned unsent. That is safe, but retries
        // are the caller's decision.
        .retry_canceled_requests(false)
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_max_idle_per_host(MAX_IDLE_PER_HOST)
        .http1_max_buf_size(MAX_HEAD_BYTES)
        .http1_max_headers(MAX_HEADERS)
        .build(connector)
}

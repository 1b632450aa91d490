//! The client: one for each process, which keeps connections and sends each request once.

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
use super::answer::{self, Received};
use super::connector::{self, Connector};
use super::failure::{Failure, Fault};
use super::resolver::{Resolver, SystemResolver};
use super::target::Target;
use crate::clock::Clock;

/// How long an unused connection is kept: less than the five seconds after which common servers close theirs (Node.js,
/// Apache), since a request that meets their closing is lost.
const IDLE: Duration = Duration::from_secs(4);
/// Unused connections to one host at most.
const IDLE_PER_HOST: usize = 32;
/// Bytes of an answer's head, and one read more: it is looked at after each.
const HEAD: usize = 64 * 1024;
/// Headers of an answer at most.
const HEADERS: usize = 100;

pub(super) type Http = Client<Connector, Full<Bytes>>;

/// Posts to addresses that others chose. Cheap to clone; the clones share their connections.
#[derive(Clone)]
pub struct Egress {
    public: Http,
    /// With connections of its own: one that loopback's permission opened must not serve a target without it.
    loopback: Http,
    timeout: Duration,
    clock: Clock,
}

impl Egress {
    /// A client that gives each request so much time in all. The clock tells how far off a `Retry-After` date is.
    pub fn new(timeout: Duration, clock: Clock) -> Self {
        Self::with(timeout, clock, Arc::new(SystemResolver), Vec::new())
    }

    /// The same with a resolver and with certificate authorities beside the public ones. An authority that cannot be read
    /// is left out, so nothing is trusted for it.
    pub fn with(
        timeout: Duration,
        clock: Clock,
        resolver: Arc<dyn Resolver>,
        authorities: Vec<CertificateDer<'static>>,
    ) -> Self {
        let tls = connector::tls(authorities);
        let http = |reach| http(Connector::new(resolver.clone(), tls.clone(), reach, timeout));
        Self { public: http(Reach::Public), loopback: http(Reach::Loopback), timeout, clock }
    }

    /// Posts these bytes, once, and answers what came back, whatever its status. `Host` and `Content-Length` are added, and
    /// nothing else.
    ///
    /// # Errors
    /// No whole answer came within the time-out, which spans look-up, connection, request, head and body.
    pub async fn post(&self, target: &Target, headers: HeaderMap, body: Bytes) -> Result<Received, Failure> {
        let started = Instant::now();
        let exchange = self.exchange(target, headers, body);
        let outcome = tokio::time::timeout(self.timeout, exchange).await;
        let duration = started.elapsed();
        match outcome.unwrap_or_else(|_| Err(Fault::timeout(self.timeout))) {
            Ok(received) => Ok(Received { duration, ..received }),
            Err(Fault { kind, message }) => Err(Failure { kind, message, duration }),
        }
    }

    async fn exchange(&self, target: &Target, headers: HeaderMap, body: Bytes) -> Result<Received, Fault> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = target.uri().clone();
        *request.headers_mut() = headers;
        let http = if target.allows_loopback() { &self.loopback } else { &self.public };
        let response = http.request(request).await.map_err(|error| Fault::of(&error))?;
        let status = response.status().as_u16();
        let retry_after = answer::retry_after(response.headers(), &self.clock);
        let body = answer::read(response.into_body()).await.map_err(|error| Fault::of(&error))?;
        Ok(Received { status, retry_after, body, duration: Duration::ZERO })
    }
}

pub(super) fn http(connector: Connector) -> Http {
    Client::builder(TokioExecutor::new())
        // By default it sends a request again that a closing connection gave back unsent. That could not arrive twice
        // either, but whether and when there is a second try is the caller's to say.
        .retry_canceled_requests(false)
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(IDLE_PER_HOST)
        .http1_max_buf_size(HEAD)
        .http1_max_headers(HEADERS)
        .build(connector)
}

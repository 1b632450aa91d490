//! The HTTP server: `axum::serve` with limits for the number of connections, the time for a request head (bodies are
//! limited where they are read) and the time for a client to read its response, and with a graceful shutdown that fails
//! no request. If a response is ready before the request's body has arrived, the connection remains usable, or the
//! response announces that it is closed.

mod linger;
#[cfg(test)]
mod tests;
mod unread;
mod write_timeout;

use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::http::header::{CONNECTION, HeaderName, STRICT_TRANSPORT_SECURITY};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::map_response;
use axum::response::Response;
use axum::serve::Listener;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tower::ServiceExt;

use self::linger::LingeringClose;
use self::write_timeout::WriteTimeoutStream;
use crate::network::Proxies;

/// The time for a request head, and for an idle connection. Longer than the minute for which load balancers keep idle
/// connections, so that the balancer closes first.
const HEAD_TIMEOUT: Duration = Duration::from_secs(75);
/// The time for a client to read the rest of a response after it first stopped reading.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);
/// How long to wait for the rest of a body once the response is ready.
const REST_TIMEOUT: Duration = Duration::from_secs(1);
/// How long shutdown waits for requests in flight. Long enough for a slow body and the wait for a worker.
const STOP_TIMEOUT: Duration = Duration::from_secs(40);
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
/// Bytes of a request head, and of the read buffer. A longer head gets 431, and so do more than 100
/// headers.
const MAX_HEAD_BYTES: usize = 16 * 1024;
/// The default for `MAX_CONNECTIONS` where the limit of open files permits.
const DEFAULT_MAX_CONNECTIONS: usize = 10_000;
/// Open files other than client connections: connections to Postgres and Redis, and a few more.
const OTHER_FILES: usize = 200;
/// Connections to the internal listener.
const INTERNAL_CONNECTIONS: usize = 64;

/// The limits of a listener.
#[derive(Clone, Debug)]
pub struct ListenerConfig {
    /// The `listener` label of metrics.
    name: &'static str,
    /// Concurrent connections. Further clients wait in the kernel's accept queue.
    connections: usize,
    /// Proxies whose `X-Forwarded-For` is trusted.
    proxies: Proxies,
    head_timeout: Duration,
    rest_timeout: Duration,
    write_timeout: Duration,
}

impl ListenerConfig {
    /// For clients outside.
    pub fn public(connections: usize, proxies: Proxies) -> Self {
        let (head_timeout, rest_timeout, write_timeout) = (HEAD_TIMEOUT, REST_TIMEOUT, WRITE_TIMEOUT);
        Self { name: "public", connections, proxies, head_timeout, rest_timeout, write_timeout }
    }

    /// For monitoring. Its connections are counted separately, so that a flood of public connections cannot block it.
    pub fn internal() -> Self {
        Self { name: "internal", ..Self::public(INTERNAL_CONNECTIONS, Proxies::default()) }
    }

    /// As many connections as the limit of open files permits, up to 10,000.
    pub fn default_connections() -> usize {
        let limit = std::fs::read_to_string("/proc/self/limits").ok().and_then(|limits| open_files(&limits));
        limit.map_or(DEFAULT_MAX_CONNECTIONS, |files| {
            files.saturating_sub(OTHER_FILES).clamp(OTHER_FILES, DEFAULT_MAX_CONNECTIONS)
        })
    }
}

/// The soft limit of open files in Linux's format. `None` for "unlimited".
fn open_files(limits: &str) -> Option<usize> {
    limits.lines().find_map(|line| line.strip_prefix("Max open files"))?.split_whitespace().next()?.parse().ok()
}

/// Counts an open connection in `http_connections`.
struct ConnectionGauge(&'static str);

impl ConnectionGauge {
    fn new(name: &'static str) -> Self {
        metrics::gauge!("http_connections", "listener" => name).increment(1.0);
        Self(name)
    }
}

impl Drop for ConnectionGauge {
    fn drop(&mut self) {
        metrics::gauge!("http_connections", "listener" => self.0).decrement(1.0);
    }
}

/// If the public URL is https, sets `Strict-Transport-Security` on every response, and `Cross-Origin-Opener-Policy` to
/// isolate our pages from windows of other origins.
pub fn with_security_headers(router: Router, public_url: &str) -> Router {
    if !public_url.starts_with("https://") {
        return router;
    }
    router.layer(map_response(async |mut response: Response| {
        let headers = response.headers_mut();
        headers.insert(STRICT_TRANSPORT_SECURITY, HeaderValue::from_static("max-age=31536000"));
        headers.insert(OPENER_POLICY, HeaderValue::from_static("same-origin"));
        response
    }))
}

/// Serves until `stop` resolves. Then continues for `drain_delay`, so that load balancers notice that the process is no
/// longer ready, and closes each connection with its next response. After that it accepts no connections, and returns
/// when every request in flight has its response.
pub async fn serve(
    mut listener: TcpListener,
    router: Router,
    config: ListenerConfig,
    stop: impl Future<Output = ()>,
    drain_delay: Duration,
) {
    let ListenerConfig { name, connections: limit, proxies, head_timeout, rest_timeout, write_timeout } = config;
    metrics::gauge!("http_connections_limit", "listener" => name).set(limit as f64);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(head_timeout)
        .max_header_size(MAX_HEAD_BYTES)
        .max_buf_size(MAX_HEAD_BYTES);
    let (graceful, mut connections) = (GracefulShutdown::new(), JoinSet::new());
    let permits = Arc::new(Semaphore::new(limit.min(Semaphore::MAX_PERMITS)));
    let draining = Arc::new(AtomicBool::new(false));
    let mut stop = pin!(async {
        stop.await;
        draining.store(true, Ordering::Relaxed);
        tokio::time::sleep(drain_delay).await;
    });
    loop {
        let accept = async {
            let permit = Arc::clone(&permits).acquire_owned().await.expect("the semaphore is never closed");
            // `accept` waits and retries on errors such as too many open files.
            let (stream, address) = Listener::accept(&mut listener).await;
            (permit, stream, address)
        };
        let (permit, stream, address) = tokio::select! {
            accepted = accept => accepted,
            () = &mut stop => break,
            // Removes finished tasks from the set.
            Some(_) = connections.join_next() => continue,
        };
        let (router, proxies) = (router.clone(), proxies.clone());
        let draining = Arc::clone(&draining);
        let service = service_fn(move |request| {
            handle(router.clone(), address, proxies.clone(), request, rest_timeout, Arc::clone(&draining))
        });
        let stream = TokioIo::new(LingeringClose::new(WriteTimeoutStream::new(stream, write_timeout)));
        let connection = graceful.watch(http.serve_connection(stream, service));
        let gauge = ConnectionGauge::new(name);
        connections.spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "connection failed");
            }
            drop((permit, gauge));
        });
    }
    drop(listener);
    if tokio::time::timeout(STOP_TIMEOUT, graceful.shutdown()).await.is_err() {
        tracing::warn!("shutdown timed out; closing the remaining connections");
    }
}

/// Determines the client address once for all users of it, runs the router, and reads the rest of the request body so
/// that the connection can be reused, or marks the connection for closing.
async fn handle(
    router: Router,
    peer: SocketAddr,
    proxies: Proxies,
    mut request: hyper::Request<Incoming>,
    rest_timeout: Duration,
    draining: Arc<AtomicBool>,
) -> Result<Response, std::convert::Infallible> {
    const FORWARDED: HeaderName = HeaderName::from_static("x-forwarded-for");
    let forwarded = request.headers().get_all(FORWARDED);
    // Collected because the header iterator cannot be reversed.
    let lines: Vec<_> = forwarded.iter().map(HeaderValue::as_bytes).collect();
    let client = proxies.client(peer.ip(), lines.into_iter());
    request.extensions_mut().insert(ConnectInfo(SocketAddr::new(client, peer.port())));
    let (request, unread) = unread::track(request);
    let mut response = router.oneshot(request).await?;
    // Here and not in the routes, so that no route can omit it.
    let usable = match unread {
        // The handler has already waited for this body.
        Some(_) if response.status() == StatusCode::REQUEST_TIMEOUT => false,
        Some(unread) => unread.discard(rest_timeout).await,
        None => true,
    };
    if !usable || draining.load(Ordering::Relaxed) {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response)
}

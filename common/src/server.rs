//! Serving connections: what axum::serve does, with limits to how many there are, to how long a client may take over a request's
//! head (a body has its own where it is read) and over taking its answer, and with an end that fails nobody's request. An
//! answer that comes before the request's body leaves the connection usable, or says that it is closed.

mod linger;
mod patience;
#[cfg(test)]
mod tests;
mod unread;

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

use self::linger::Lingering;
use self::patience::Patient;
use crate::network::Proxies;

/// From an idle connection, or the first byte of a head, to the end of that head. Longer than the minute for which balancers
/// keep idle connections, so that theirs is the first side to close.
const HEAD_TIMEOUT: Duration = Duration::from_secs(75);
/// From the moment that a client takes no more of an answer to when it has taken all of it.
const TAKE_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a stop waits for requests in flight: a slow body and the wait for a worker fit in.
const STOP_TIMEOUT: Duration = Duration::from_secs(40);
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
/// Bytes of a head at most, and of what is read ahead. A longer head is 431, and so is one of more than 100 headers.
const MAX_HEAD: usize = 16 * 1024;
/// Connections at most if nothing else is said.
const MANY: usize = 10_000;
/// Open files that are not connections of clients: those to Postgres and Redis, and a few more.
const OTHER_FILES: usize = 200;
/// Connections of whoever watches a process.
const WATCHERS: usize = 64;

/// How an address is listened at.
#[derive(Clone, Debug)]
pub struct Listening {
    /// What its connections are counted as.
    name: &'static str,
    /// Connections at once. Whoever comes then waits where the system keeps those that were not taken yet, and costs us nothing.
    connections: usize,
    /// Whose word about their peers is believed.
    proxies: Proxies,
    head_timeout: Duration,
    take_timeout: Duration,
}

impl Listening {
    /// For the outside.
    pub fn public(connections: usize, proxies: Proxies) -> Self {
        let (head_timeout, take_timeout) = (HEAD_TIMEOUT, TAKE_TIMEOUT);
        Self { name: "public", connections, proxies, head_timeout, take_timeout }
    }

    /// For whoever watches the process. Its connections are apart, so that a flood outside cannot hide what it does.
    pub(crate) fn internal() -> Self {
        Self { name: "internal", ..Self::public(WATCHERS, Proxies::default()) }
    }

    /// As many as the limit of open files leaves, up to 10,000.
    pub fn default_connections() -> usize {
        let limit = std::fs::read_to_string("/proc/self/limits").ok().and_then(|limits| open_files(&limits));
        limit.map_or(MANY, |files| files.saturating_sub(OTHER_FILES).clamp(OTHER_FILES, MANY))
    }
}

/// The soft limit of open files, as Linux tells of it. "unlimited" is none.
fn open_files(limits: &str) -> Option<usize> {
    limits.lines().find_map(|line| line.strip_prefix("Max open files"))?.split_whitespace().next()?.parse().ok()
}

/// Counts a connection for as long as it is there.
struct Counted(&'static str);

impl Counted {
    fn new(name: &'static str) -> Self {
        metrics::gauge!("http_connections", "listener" => name).increment(1.0);
        Self(name)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        metrics::gauge!("http_connections", "listener" => self.0).decrement(1.0);
    }
}

/// Has every answer tell browsers to come by TLS alone, and to share no window group with pages of others, where the outside names
/// this service by `https://`.
pub fn hardened(router: Router, public_url: &str) -> Router {
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

/// Serves until told to stop. Then it goes on for `farewell`, so that balancers see that it is going, and closes each connection with
/// the answer to its next request; after that it takes no new connection, and ends when every request in flight is answered.
pub async fn serve(
    mut listener: TcpListener,
    router: Router,
    listening: Listening,
    stop: impl Future<Output = ()>,
    farewell: Duration,
) {
    let Listening { name, connections: limit, proxies, head_timeout, take_timeout } = listening;
    metrics::gauge!("http_connections_limit", "listener" => name).set(limit as f64);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(head_timeout).max_header_size(MAX_HEAD).max_buf_size(MAX_HEAD);
    let (open, mut connections) = (GracefulShutdown::new(), JoinSet::new());
    let places = Arc::new(Semaphore::new(limit.min(Semaphore::MAX_PERMITS)));
    let leaving = Arc::new(AtomicBool::new(false));
    let mut stop = pin!(async {
        stop.await;
        leaving.store(true, Ordering::Relaxed);
        tokio::time::sleep(farewell).await;
    });
    loop {
        let accept = async {
            let place = Arc::clone(&places).acquire_owned().await.expect("nobody closes it");
            // Failures to accept, such as too many open files, are waited out in there.
            let (stream, address) = Listener::accept(&mut listener).await;
            (place, stream, address)
        };
        let (place, stream, address) = tokio::select! {
            accepted = accept => accepted,
            () = &mut stop => break,
            // Only to forget those that have ended.
            Some(_) = connections.join_next() => continue,
        };
        let (router, proxies) = (router.clone(), proxies.clone());
        let leaving = Arc::clone(&leaving);
        let service =
            service_fn(move |request| answer(router.clone(), address, proxies.clone(), request, Arc::clone(&leaving)));
        let stream = TokioIo::new(Lingering::new(Patient::new(stream, take_timeout)));
        let connection = open.watch(http.serve_connection(stream, service));
        let counted = Counted::new(name);
        connections.spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection broke off");
            }
            drop((place, counted));
        });
    }
    drop(listener);
    if tokio::time::timeout(STOP_TIMEOUT, open.shutdown()).await.is_err() {
        tracing::warn!("some connections were still open at the end, and are cut");
    }
}

/// Whom a request comes from is decided here, once, for all that count by it; and here what the router has not read of a body is
/// read, or the connection given up.
async fn answer(
    router: Router,
    peer: SocketAddr,
    proxies: Proxies,
    mut request: hyper::Request<Incoming>,
    leaving: Arc<AtomicBool>,
) -> Result<Response, std::convert::Infallible> {
    const FORWARDED: HeaderName = HeaderName::from_static("x-forwarded-for");
    let forwarded = request.headers().get_all(FORWARDED);
    // It cannot be read from its end.
    let lines: Vec<_> = forwarded.iter().map(HeaderValue::as_bytes).collect();
    let client = proxies.client(peer.ip(), lines.into_iter());
    request.extensions_mut().insert(ConnectInfo(SocketAddr::new(client, peer.port())));
    let (request, unread) = unread::track(request);
    let mut response = router.oneshot(request).await?;
    // Here and not in the routes, so that none of them can forget it.
    let usable = match unread {
        // It has been waited for already.
        Some(_) if response.status() == StatusCode::REQUEST_TIMEOUT => false,
        Some(unread) => unread.discard().await,
        None => true,
    };
    if !usable || leaving.load(Ordering::Relaxed) {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response)
}

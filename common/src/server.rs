//! Serving connections: what axum::serve does, with a limit to how long a client may take over a request's head (a body has its
//! own where it is read), and with an end that fails nobody's request.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::HeaderValue;
use axum::http::header::CONNECTION;
use axum::response::Response;
use axum::serve::Listener;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tower::ServiceExt;

/// From an idle connection, or the first byte of a head, to the end of that head. Longer than the minute for which balancers
/// keep idle connections, so that theirs is the first side to close.
const HEAD_TIMEOUT: Duration = Duration::from_secs(75);
/// How long a stop waits for requests in flight: a slow body and the wait for a worker fit in.
const STOP_TIMEOUT: Duration = Duration::from_secs(40);

/// Serves until told to stop. Then it goes on for `farewell`, so that balancers see that it is going, and closes each connection with
/// the answer to its next request; after that it takes no new connection, and ends when every request in flight is answered.
pub async fn serve(mut listener: TcpListener, router: Router, stop: impl Future<Output = ()>, farewell: Duration) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    let (open, mut connections) = (GracefulShutdown::new(), JoinSet::new());
    let leaving = Arc::new(AtomicBool::new(false));
    let mut stop = pin!(async {
        stop.await;
        leaving.store(true, Ordering::Relaxed);
        tokio::time::sleep(farewell).await;
    });
    loop {
        let (stream, address) = tokio::select! {
            // Failures to accept, such as too many open files, are waited out in there.
            accepted = Listener::accept(&mut listener) => accepted,
            () = &mut stop => break,
            // Only to forget those that have ended.
            Some(_) = connections.join_next() => continue,
        };
        let router = router.clone();
        let leaving = Arc::clone(&leaving);
        let service = service_fn(move |request| answer(router.clone(), address, request, Arc::clone(&leaving)));
        let connection = open.watch(http.serve_connection(TokioIo::new(stream), service));
        connections.spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection broke off");
            }
        });
    }
    drop(listener);
    if tokio::time::timeout(STOP_TIMEOUT, open.shutdown()).await.is_err() {
        tracing::warn!("some connections were still open at the end, and are cut");
    }
}

async fn answer(
    router: Router,
    address: SocketAddr,
    mut request: hyper::Request<Incoming>,
    leaving: Arc<AtomicBool>,
) -> Result<Response, std::convert::Infallible> {
    request.extensions_mut().insert(ConnectInfo(address));
    let mut response = router.oneshot(request.map(Body::new)).await?;
    if leaving.load(Ordering::Relaxed) {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response)
}

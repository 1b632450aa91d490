//! Misbehaving clients against a real listener with short timeouts.

mod bodies;
mod concurrency;

use std::sync::atomic::AtomicUsize;
use std::sync::mpsc;
use std::time::Instant;

use axum::routing::{get, post};
use futures_util::future::join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::*;
use crate::network::Network;

/// Long enough for a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);
/// For a limit that the test expects to be reached.
const SHORT: Duration = Duration::from_secs(2);
/// For a limit that the test expects not to be reached: what waits for it exceeds [`TIMEOUT`].
const NEVER: Duration = Duration::from_secs(3_600);

fn unlimited(connections: usize) -> ListenerConfig {
    ListenerConfig {
        head_timeout: NEVER,
        rest_timeout: NEVER,
        write_timeout: NEVER,
        ..ListenerConfig::public(connections, Proxies::default())
    }
}

/// Stops the clock of every timeout until it is dropped, for tests in which the client must continue before the server
/// gives up. The clock does not advance even while every task waits.
struct StoppedClock(#[expect(dead_code, reason = "its drop ends the blocking task")] mpsc::Sender<()>);

impl StoppedClock {
    fn new() -> Self {
        let (running, dropped) = mpsc::channel();
        // Tokio advances a paused clock only if no blocking task runs. This one ends if the test is stuck.
        tokio::task::spawn_blocking(move || dropped.recv_timeout(TIMEOUT));
        tokio::time::pause();
        Self(running)
    }
}

impl Drop for StoppedClock {
    fn drop(&mut self) {
        tokio::time::resume();
    }
}

struct TestServer {
    address: SocketAddr,
    stop: Arc<Notify>,
    task: JoinHandle<()>,
}

#[expect(clippy::disallowed_methods, reason = "it ends with the test")]
async fn start_server(config: ListenerConfig, router: Router) -> TestServer {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let (address, stop) = (listener.local_addr().expect("an address"), Arc::new(Notify::new()));
    let stopped = Arc::clone(&stop);
    let task = tokio::spawn(async move {
        serve(listener, router, config, async move { stopped.notified().await }, Duration::ZERO).await;
    });
    TestServer { address, stop, task }
}

/// Sends a request and reads until the connection ends.
async fn exchange(stream: &mut TcpStream, request: &str) -> String {
    stream.write_all(request.as_bytes()).await.expect("written");
    let mut response = Vec::new();
    timeout(TIMEOUT, stream.read_to_end(&mut response)).await.expect("the connection ends").ok();
    String::from_utf8_lossy(&response).into_owned()
}

async fn connect(server: &TestServer) -> TcpStream {
    TcpStream::connect(server.address).await.expect("a connection")
}

const CLOSE: &str = "GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n";

#[tokio::test]
async fn clients_that_do_not_read_are_disconnected() {
    let responses = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&responses);
    // Far more than all buffers on the way.
    let large = Router::new().route(
        "/",
        get(async move || {
            counter.fetch_add(1, Ordering::Relaxed);
            vec![b'x'; 64 * 1024 * 1024]
        }),
    );
    let config = ListenerConfig { write_timeout: SHORT, ..unlimited(1) };
    let server = start_server(config, large).await;
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4096).expect("a small buffer");
    let mut stream = socket.connect(server.address).await.expect("a connection");
    stream.write_all(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n").await.expect("written");
    // The connection limit is 1, so a second client is served only after the first was disconnected.
    let mut other = connect(&server).await;
    other.write_all(CLOSE.as_bytes()).await.expect("written");
    let mut first = [0; 12];
    timeout(TIMEOUT, other.read_exact(&mut first)).await.expect("in time").expect("a response");
    assert_eq!((&first, responses.load(Ordering::Relaxed)), (b"HTTP/1.1 200", 2));
    let mut received = Vec::new();
    timeout(TIMEOUT, stream.read_to_end(&mut received)).await.expect("the connection ends").ok();
    assert!(received.len() < 64 * 1024 * 1024, "the whole response arrived");
}

#[tokio::test]
async fn slow_readers_get_the_complete_response() {
    const SIZE: usize = 8 * 1024 * 1024;
    let large = Router::new().route("/", get(async || vec![b'x'; SIZE]));
    let server = start_server(unlimited(1), large).await;
    let mut stream = connect(&server).await;
    stream.write_all(CLOSE.as_bytes()).await.expect("written");
    let (mut received, mut buffer) = (0, vec![0; 256 * 1024]);
    loop {
        match timeout(TIMEOUT, stream.read(&mut buffer)).await.expect("in time").expect("bytes") {
            0 => break,
            read => received += read,
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(received > SIZE, "{received}");
}

#[tokio::test]
async fn connections_beyond_the_limit_wait() {
    let config = ListenerConfig { head_timeout: SHORT, ..unlimited(2) };
    let server = start_server(config, Router::new().route("/", get(async || "ok"))).await;
    let began = Instant::now();
    // Two silent clients reach the limit; a third waits and is served after their timeout.
    let (mut first, second) = (connect(&server).await, connect(&server).await);
    let mut third = connect(&server).await;
    third.write_all(CLOSE.as_bytes()).await.expect("written");
    assert!(exchange(&mut third, "").await.starts_with("HTTP/1.1 200"));
    assert!(began.elapsed() >= SHORT, "served beyond the limit");
    assert_eq!(exchange(&mut first, "").await, "", "closed without a response");
    drop(second);
}

#[tokio::test]
async fn an_endless_request_head_times_out() {
    let config = ListenerConfig { head_timeout: SHORT, ..unlimited(4) };
    let server = start_server(config, Router::new().route("/", get(async || "ok"))).await;
    let partial = ["", "GET / HT", "GET / HTTP/1.1\r\nHost: here\r\nX-Slow: "];
    for response in join_all(partial.map(async |head| exchange(&mut connect(&server).await, head).await)).await {
        assert!(!response.starts_with("HTTP/1.1 2"), "{response}");
    }
}

#[tokio::test]
async fn the_size_of_a_request_head_is_limited() {
    let server = start_server(unlimited(4), Router::new().route("/", post(async || "ok").get(async || "ok"))).await;
    let head = |headers: &str| format!("GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n{headers}\r\n");
    let many = |count: usize| (0..count).map(|i| format!("X-{i}: 1\r\n")).collect::<String>();
    let long = |bytes: usize| format!("X-Long: {}\r\n", "x".repeat(bytes));
    for (headers, status) in
        [(many(90), "200"), (many(101), "431"), (long(12 * 1024), "200"), (long(MAX_HEAD_BYTES), "431")]
    {
        let response = exchange(&mut connect(&server).await, &head(&headers)).await;
        assert!(response.starts_with(&format!("HTTP/1.1 {status} ")), "{} bytes: {response}", headers.len());
    }
}

#[tokio::test]
async fn the_client_address_comes_from_trusted_proxies_only() {
    let echo = Router::new().route("/", get(async |ConnectInfo(from): ConnectInfo<SocketAddr>| from.ip().to_string()));
    let request = "GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\nX-Forwarded-For: 198.51.100.9\r\n\
                 X-Forwarded-For: 192.0.2.7\r\n\r\n";
    for (trusted, client) in
        [(Some("127.0.0.0/8"), "192.0.2.7"), (None, "127.0.0.1"), (Some("10.0.0.0/8"), "127.0.0.1")]
    {
        let networks = trusted.map(|text| Network::parse(text).expect("a network"));
        let config = ListenerConfig { proxies: Proxies::new(networks.into_iter().collect()), ..unlimited(4) };
        let server = start_server(config, echo.clone()).await;
        assert!(
            exchange(&mut connect(&server).await, request).await.ends_with(&format!("\r\n\r\n{client}")),
            "{trusted:?}"
        );
    }
}

#[tokio::test]
async fn shutdown_completes_requests_in_flight() {
    let (started, proceed) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let slow = {
        let (started, proceed) = (Arc::clone(&started), Arc::clone(&proceed));
        get(async move || {
            started.notify_one();
            proceed.notified().await;
            "late"
        })
    };
    // The request uses the only connection permit.
    let server = start_server(unlimited(1), Router::new().route("/", slow)).await;
    let mut stream = connect(&server).await;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n").await.expect("written");
    started.notified().await;
    server.stop.notify_one();
    proceed.notify_one();
    assert!(exchange(&mut stream, "").await.ends_with("late"));
    timeout(TIMEOUT, server.task).await.expect("the server ends").expect("without a panic");
}

#[test]
fn the_limit_of_open_files_is_parsed() {
    let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                  Max processes             127265               127265               processes \n\
                  Max open files            1024                 1048576              files     \n";
    assert_eq!(open_files(limits), Some(1024));
    assert_eq!(open_files(&limits.replace("1024  ", "unlimited")), None);
    assert_eq!(open_files(""), None);
    assert!((OTHER_FILES..=DEFAULT_MAX_CONNECTIONS).contains(&ListenerConfig::default_connections()));
}

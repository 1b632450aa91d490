//! Requests whose body arrives after the response is ready, partially, or never.

use axum::http::StatusCode;
use axum::middleware::map_request;
use axum::response::IntoResponse;
use axum::routing::any;

use super::*;

/// Routes that read no body, all of it, or a part of it. Each request notifies `arrived`.
fn router(arrived: Arc<Notify>) -> Router {
    let partial = async |request: axum::extract::Request| {
        let read = axum::body::to_bytes(request.into_body(), 10).await;
        if read.is_ok() { StatusCode::OK } else { StatusCode::PAYLOAD_TOO_LARGE }
    };
    Router::new()
        .route("/refused", any(async || StatusCode::UNAUTHORIZED))
        .route("/read", any(async |body: String| body))
        .route("/partial", any(partial))
        .route("/late", any(async || StatusCode::REQUEST_TIMEOUT))
        .layer(axum::extract::DefaultBodyLimit::disable())
        .layer(map_request(move |request: axum::extract::Request| {
            arrived.notify_one();
            std::future::ready(request)
        }))
}

async fn start_with(config: ListenerConfig) -> (TestServer, TcpStream, Arc<Notify>) {
    let arrived = Arc::new(Notify::new());
    let server = start_server(config, router(Arc::clone(&arrived))).await;
    let stream = connect(&server).await;
    (server, stream, arrived)
}

async fn start() -> (TestServer, TcpStream, Arc<Notify>) {
    start_with(unlimited(64)).await
}

pub(super) struct TestResponse {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: Vec<u8>,
}

impl TestResponse {
    pub(super) fn closes(&self) -> bool {
        self.head.to_ascii_lowercase().contains("\r\nconnection: close\r\n")
    }
}

/// Reads exactly one response.
pub(super) async fn read_response(stream: &mut TcpStream) -> TestResponse {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let byte = timeout(TIMEOUT, stream.read_u8()).await.expect("in time");
        head.push(byte.unwrap_or_else(|error| panic!("{error} after {:?}", String::from_utf8_lossy(&head))));
    }
    let head = String::from_utf8(head).expect("text");
    let status = head[9..12].parse().expect("a status");
    let length = head.to_ascii_lowercase().lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    timeout(TIMEOUT, stream.read_exact(&mut body)).await.expect("in time").expect("a body");
    TestResponse { status, head, body }
}

pub(super) async fn send(stream: &mut TcpStream, bytes: impl AsRef<[u8]>) {
    stream.write_all(bytes.as_ref()).await.expect("written");
}

pub(super) fn post(path: &str, headers: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: here\r\n{headers}\r\n")
}

/// Checks that the connection carries another request.
async fn assert_reusable(stream: &mut TcpStream) {
    send(stream, post("/read", "Content-Length: 5\r\n") + "again").await;
    let second = read_response(stream).await;
    assert_eq!((second.status, second.body.as_slice()), (200, b"again".as_slice()), "{}", second.head);
}

/// Checks that the connection ends without a reset.
pub(super) async fn assert_closed(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    let read = timeout(TIMEOUT, stream.read_to_end(&mut rest)).await.expect("the connection ends");
    assert_eq!(read.expect("no reset"), 0);
}

#[tokio::test]
async fn a_body_that_arrives_after_the_response_keeps_the_connection_usable() {
    let chunked = |size: usize| format!("{size:x}\r\n{}\r\n0\r\n\r\n", "x".repeat(size));
    let (_server, mut stream, arrived) = start().await;
    for (path, status) in [("/refused", 401), ("/partial", 413), ("/nowhere", 404)] {
        for size in [1, 100, 64 * 1024] {
            let length = format!("Content-Length: {size}\r\n");
            for (headers, body) in
                [(length.as_str(), "x".repeat(size)), ("Transfer-Encoding: chunked\r\n", chunked(size))]
            {
                if (path, size) == ("/partial", 1) {
                    continue;
                }
                send(&mut stream, post(path, headers)).await;
                arrived.notified().await;
                send(&mut stream, body).await;
                let refused = read_response(&mut stream).await;
                assert_eq!((refused.status, refused.closes()), (status, false), "{path} {size}: {}", refused.head);
                assert_reusable(&mut stream).await;
                arrived.notified().await;
            }
        }
    }
}

#[tokio::test]
async fn bodies_of_get_and_delete_requests_are_read() {
    let (_server, mut stream, arrived) = start().await;
    for method in ["GET", "HEAD", "DELETE", "OPTIONS"] {
        send(&mut stream, format!("{method} /refused HTTP/1.1\r\nHost: here\r\nContent-Length: 4\r\n\r\n")).await;
        arrived.notified().await;
        send(&mut stream, "body").await;
        let refused = read_response(&mut stream).await;
        assert_eq!((refused.status, refused.closes()), (401, false), "{method}: {}", refused.head);
        assert_reusable(&mut stream).await;
        arrived.notified().await;
    }
}

#[tokio::test]
async fn a_stalled_body_is_awaited_for_one_second() {
    let bodies = [
        ("Content-Length: 10\r\n", ""),
        ("Content-Length: 10\r\n", "half"),
        ("Transfer-Encoding: chunked\r\n", "4\r\nha"),
    ];
    let stalled = bodies.map(async |(headers, partial)| {
        let (_server, mut stream, _) = start_with(ListenerConfig { rest_timeout: REST_TIMEOUT, ..unlimited(64) }).await;
        let began = Instant::now();
        send(&mut stream, post("/refused", headers) + partial).await;
        let refused = read_response(&mut stream).await;
        assert!(began.elapsed() >= Duration::from_secs(1), "{:?}", began.elapsed());
        assert!(refused.status == 401 && refused.closes(), "{partial}: {}", refused.head);
        assert_closed(&mut stream).await;
    });
    join_all(stalled).await;
}

#[tokio::test]
async fn a_body_over_the_limit_is_not_awaited() {
    let (_server, mut stream, _) = start().await;
    send(&mut stream, post("/refused", "Content-Length: 1000000000\r\n")).await;
    let refused = read_response(&mut stream).await;
    assert!(refused.status == 401 && refused.closes(), "{}", refused.head);
}

/// A client that sends everything before it reads gets the response and no reset.
#[tokio::test]
async fn clients_that_send_too_much_can_read_the_response() {
    const SIZE: usize = 4 * 1024 * 1024;
    let endless = format!("{SIZE:x}\r\n{}\r\n", "x".repeat(SIZE));
    let _clock = StoppedClock::new();
    for (headers, body) in [
        (format!("Content-Length: {SIZE}\r\n"), "x".repeat(SIZE)),
        ("Transfer-Encoding: chunked\r\n".to_owned(), endless),
    ] {
        for path in ["/refused", "/partial"] {
            let (_server, mut stream, _) = start().await;
            send(&mut stream, post(path, &headers)).await;
            for part in body.as_bytes().chunks(256 * 1024) {
                send(&mut stream, part).await;
                // The server responds before it has the whole body.
                tokio::task::yield_now().await;
            }
            let refused = read_response(&mut stream).await;
            assert!(refused.closes() && [401, 413].contains(&refused.status), "{}", refused.head);
            assert_closed(&mut stream).await;
        }
    }
}

#[tokio::test]
async fn clients_with_a_malformed_head_can_read_the_response() {
    let _clock = StoppedClock::new();
    for waits in [true, false] {
        let (_server, mut stream, _) = start().await;
        send(&mut stream, "NONSENSE\r\n\r\n").await;
        if waits {
            stream.peek(&mut [0]).await.expect("a response");
        }
        send(&mut stream, "x".repeat(100_000)).await;
        assert_eq!(read_response(&mut stream).await.status, 400);
        assert_closed(&mut stream).await;
    }
}

#[tokio::test]
async fn no_continue_is_sent_for_an_unwanted_body() {
    let expecting = |path: &str| post(path, "Content-Length: 5\r\nExpect: 100-continue\r\n");
    // Bytes after a final response could be the body or the next request, so the connection is closed.
    let (_server, mut stream, _) = start().await;
    send(&mut stream, expecting("/refused")).await;
    let refused = read_response(&mut stream).await;
    assert!(refused.status == 401 && refused.closes(), "{}", refused.head);
    assert_closed(&mut stream).await;

    let (_server, mut stream, _) = start().await;
    send(&mut stream, expecting("/read")).await;
    assert_eq!(read_response(&mut stream).await.status, 100);
    send(&mut stream, "hello").await;
    let read = read_response(&mut stream).await;
    assert_eq!((read.status, read.body.as_slice(), read.closes()), (200, b"hello".as_slice(), false));
    assert_reusable(&mut stream).await;
}

#[tokio::test]
async fn a_malformed_body_closes_the_connection() {
    let (_server, mut stream, _) = start().await;
    send(&mut stream, post("/read", "Transfer-Encoding: chunked\r\n") + "nonsense\r\n").await;
    let refused = read_response(&mut stream).await;
    assert!(refused.status == 400 && refused.closes(), "{}", refused.head);
    assert_closed(&mut stream).await;
}

#[tokio::test]
async fn a_body_that_timed_out_is_not_awaited_again() {
    let (_server, mut stream, _) = start().await;
    send(&mut stream, post("/late", "Content-Length: 5\r\n")).await;
    let refused = read_response(&mut stream).await;
    assert!(refused.status == 408 && refused.closes(), "{}", refused.head);
}

#[tokio::test]
async fn the_connection_is_closed_if_a_task_still_holds_the_body() {
    let bodies: Arc<std::sync::Mutex<Vec<axum::body::Body>>> = Arc::default();
    let holder = Arc::clone(&bodies);
    let hold_body = async move |request: axum::extract::Request| {
        holder.lock().expect("not poisoned").push(request.into_body());
        StatusCode::ACCEPTED.into_response()
    };
    let server = start_server(unlimited(4), Router::new().route("/", any(hold_body))).await;
    let mut stream = connect(&server).await;
    send(&mut stream, post("/", "Content-Length: 5\r\n")).await;
    let accepted = read_response(&mut stream).await;
    assert!(accepted.status == 202 && accepted.closes(), "{}", accepted.head);
}

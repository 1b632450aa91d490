//! Requests whose body arrives after the answer was made, in part, or never.

use std::time::Instant;

use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::any;

use super::*;

/// Between the head of a request and its body.
const PAUSE: Duration = Duration::from_millis(50);
/// A stalled body is waited for for one second; the rest is for a busy machine.
const STALLED: Duration = Duration::from_millis(1_500);

/// Answers nobody's body, reads one, breaks on one, and answers in the middle of one.
fn router() -> Router {
    let partly = async |request: axum::extract::Request| {
        let read = axum::body::to_bytes(request.into_body(), 10).await;
        if read.is_ok() { StatusCode::OK } else { StatusCode::PAYLOAD_TOO_LARGE }
    };
    Router::new()
        .route("/refused", any(async || StatusCode::UNAUTHORIZED))
        .route("/read", any(async |body: String| body))
        .route("/partly", any(partly))
        .route("/late", any(async || StatusCode::REQUEST_TIMEOUT))
        .layer(axum::extract::DefaultBodyLimit::disable())
}

async fn serving() -> (Served, TcpStream) {
    let listening = Listening { head_timeout: PATIENCE, take_timeout: PATIENCE, ..hasty(64) };
    let served = served(listening, router()).await;
    let stream = connect(&served).await;
    (served, stream)
}

pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: Vec<u8>,
}

impl Answer {
    pub(super) fn closes(&self) -> bool {
        self.head.to_ascii_lowercase().contains("\r\nconnection: close\r\n")
    }
}

/// One whole answer and not a byte more.
pub(super) async fn answer(stream: &mut TcpStream) -> Answer {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let byte = timeout(PATIENCE, stream.read_u8()).await.expect("in time");
        head.push(byte.unwrap_or_else(|error| panic!("{error} after {:?}", String::from_utf8_lossy(&head))));
    }
    let head = String::from_utf8(head).expect("text");
    let status = head[9..12].parse().expect("a status");
    let length = head.to_ascii_lowercase().lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    timeout(PATIENCE, stream.read_exact(&mut body)).await.expect("in time").expect("a body");
    Answer { status, head, body }
}

pub(super) async fn send(stream: &mut TcpStream, bytes: impl AsRef<[u8]>) {
    stream.write_all(bytes.as_ref()).await.expect("written");
}

pub(super) fn post(path: &str, headers: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: here\r\n{headers}\r\n")
}

/// The connection carries another request.
async fn goes_on(stream: &mut TcpStream) {
    send(stream, post("/read", "Content-Length: 5\r\n") + "again").await;
    let second = answer(stream).await;
    assert_eq!((second.status, second.body.as_slice()), (200, b"again".as_slice()), "{}", second.head);
}

/// The client sees the end of the connection, and no reset.
pub(super) async fn ends(stream: &mut TcpStream) {
    let mut more = Vec::new();
    let read = timeout(PATIENCE, stream.read_to_end(&mut more)).await.expect("an end");
    assert_eq!(read.expect("no reset"), 0);
}

#[tokio::test]
async fn a_body_that_comes_after_the_answer_is_read_and_the_connection_stays() {
    let chunked = |size: usize| format!("{size:x}\r\n{}\r\n0\r\n\r\n", "x".repeat(size));
    let (_served, mut stream) = serving().await;
    for (path, status) in [("/refused", 401), ("/partly", 413), ("/nowhere", 404)] {
        for size in [1, 100, 64 * 1024] {
            let length = format!("Content-Length: {size}\r\n");
            for (headers, body) in
                [(length.as_str(), "x".repeat(size)), ("Transfer-Encoding: chunked\r\n", chunked(size))]
            {
                if (path, size) == ("/partly", 1) {
                    continue;
                }
                send(&mut stream, post(path, headers)).await;
                tokio::time::sleep(PAUSE).await;
                send(&mut stream, body).await;
                let refused = answer(&mut stream).await;
                assert_eq!((refused.status, refused.closes()), (status, false), "{path} {size}: {}", refused.head);
                goes_on(&mut stream).await;
            }
        }
    }
}

#[tokio::test]
async fn methods_without_a_body_may_send_one() {
    let (_served, mut stream) = serving().await;
    for method in ["GET", "HEAD", "DELETE", "OPTIONS"] {
        send(&mut stream, format!("{method} /refused HTTP/1.1\r\nHost: here\r\nContent-Length: 4\r\n\r\n")).await;
        tokio::time::sleep(PAUSE).await;
        send(&mut stream, "body").await;
        let refused = answer(&mut stream).await;
        assert_eq!((refused.status, refused.closes()), (401, false), "{method}: {}", refused.head);
        goes_on(&mut stream).await;
    }
}

#[tokio::test]
async fn a_body_that_stalls_is_waited_for_for_a_second() {
    for (headers, begun) in [
        ("Content-Length: 10\r\n", ""),
        ("Content-Length: 10\r\n", "half"),
        ("Transfer-Encoding: chunked\r\n", "4\r\nha"),
    ] {
        let (_served, mut stream) = serving().await;
        send(&mut stream, post("/refused", headers) + begun).await;
        let began = Instant::now();
        let refused = answer(&mut stream).await;
        assert!(began.elapsed() < STALLED, "{:?}", began.elapsed());
        assert!(refused.status == 401 && refused.closes(), "{begun}: {}", refused.head);
        ends(&mut stream).await;
    }
}

#[tokio::test]
async fn a_body_over_the_limit_is_not_waited_for() {
    let (_served, mut stream) = serving().await;
    send(&mut stream, post("/refused", "Content-Length: 1000000000\r\n")).await;
    let began = Instant::now();
    let refused = answer(&mut stream).await;
    assert!(refused.closes() && began.elapsed() < Duration::from_millis(500), "{:?}", began.elapsed());
}

/// A client that first sends everything and then reads finds its answer, and no reset before it.
#[tokio::test]
async fn whoever_sends_too_much_can_read_the_answer() {
    const MUCH: usize = 4 * 1024 * 1024;
    let endless = format!("{MUCH:x}\r\n{}\r\n", "x".repeat(MUCH));
    for (headers, body) in [
        (format!("Content-Length: {MUCH}\r\n"), "x".repeat(MUCH)),
        ("Transfer-Encoding: chunked\r\n".to_owned(), endless),
    ] {
        for path in ["/refused", "/partly"] {
            let (_served, mut stream) = serving().await;
            send(&mut stream, post(path, &headers)).await;
            for part in body.as_bytes().chunks(256 * 1024) {
                send(&mut stream, part).await;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            let refused = answer(&mut stream).await;
            assert!(refused.closes() && [401, 413].contains(&refused.status), "{}", refused.head);
            ends(&mut stream).await;
        }
    }
}

/// So can one whose head is none.
#[tokio::test]
async fn whoever_sends_nonsense_can_read_the_answer() {
    let (_served, mut stream) = serving().await;
    send(&mut stream, "NONSENSE\r\n\r\n").await;
    tokio::time::sleep(PAUSE).await;
    send(&mut stream, "x".repeat(100_000)).await;
    assert_eq!(answer(&mut stream).await.status, 400);
    ends(&mut stream).await;
}

#[tokio::test]
async fn nobody_is_asked_for_a_body_that_is_not_wanted() {
    let expecting = |path: &str| post(path, "Content-Length: 5\r\nExpect: 100-continue\r\n");
    // What comes after a final answer may be the body or the next request, so nothing may come after it.
    let (_served, mut stream) = serving().await;
    send(&mut stream, expecting("/refused")).await;
    let refused = answer(&mut stream).await;
    assert!(refused.status == 401 && refused.closes(), "{}", refused.head);
    ends(&mut stream).await;

    let (_served, mut stream) = serving().await;
    send(&mut stream, expecting("/read")).await;
    assert_eq!(answer(&mut stream).await.status, 100);
    send(&mut stream, "hello").await;
    let read = answer(&mut stream).await;
    assert_eq!((read.status, read.body.as_slice(), read.closes()), (200, b"hello".as_slice(), false));
    goes_on(&mut stream).await;
}

#[tokio::test]
async fn a_body_that_breaks_the_protocol_is_the_last_on_its_connection() {
    let (_served, mut stream) = serving().await;
    send(&mut stream, post("/read", "Transfer-Encoding: chunked\r\n") + "nonsense\r\n").await;
    let refused = answer(&mut stream).await;
    assert!(refused.status == 400 && refused.closes(), "{}", refused.head);
    ends(&mut stream).await;
}

#[tokio::test]
async fn a_body_that_was_too_slow_once_is_not_waited_for_again() {
    let (_served, mut stream) = serving().await;
    send(&mut stream, post("/late", "Content-Length: 5\r\n")).await;
    let began = Instant::now();
    let refused = answer(&mut stream).await;
    assert!(refused.status == 408 && refused.closes(), "{}", refused.head);
    assert!(began.elapsed() < Duration::from_millis(500), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_task_that_keeps_the_body_closes_the_connection() {
    let kept: Arc<std::sync::Mutex<Vec<axum::body::Body>>> = Arc::default();
    let keeper = Arc::clone(&kept);
    let keeping = async move |request: axum::extract::Request| {
        keeper.lock().expect("whole").push(request.into_body());
        StatusCode::ACCEPTED.into_response()
    };
    let served = served(hasty(4), Router::new().route("/", any(keeping))).await;
    let mut stream = connect(&served).await;
    send(&mut stream, post("/", "Content-Length: 5\r\n")).await;
    let accepted = answer(&mut stream).await;
    assert!(accepted.status == 202 && accepted.closes(), "{}", accepted.head);
}

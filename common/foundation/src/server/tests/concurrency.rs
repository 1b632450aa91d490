//! Concurrent clients, and unusual uses of a connection.

use axum::http::StatusCode;
use axum::routing::any;

use super::bodies::{assert_closed, post, read_response, send};
use super::*;

fn router() -> Router {
    Router::new()
        .route("/refused", any(async || StatusCode::UNAUTHORIZED))
        .route("/read", any(async |body: String| body))
}

async fn start(connections: usize) -> TestServer {
    start_server(unlimited(connections), router()).await
}

#[tokio::test]
async fn slow_bodies_do_not_delay_other_requests() {
    let server = start(64).await;
    let mut slow = Vec::new();
    for _ in 0..30 {
        let mut stream = connect(&server).await;
        send(&mut stream, post("/refused", "Content-Length: 100\r\n") + "half").await;
        slow.push(stream);
    }
    let mut stream = connect(&server).await;
    for _ in 0..20 {
        send(&mut stream, post("/read", "Content-Length: 2\r\n") + "ok").await;
        assert_eq!(read_response(&mut stream).await.status, 200);
    }
    // The slow ones were still awaited: their connections remain usable.
    for mut stream in slow {
        send(&mut stream, "x".repeat(96)).await;
        let refused = read_response(&mut stream).await;
        assert!(refused.status == 401 && !refused.closes(), "{}", refused.head);
    }
}

#[tokio::test]
async fn endless_bodies_release_their_connection_permits() {
    let config = ListenerConfig { rest_timeout: SHORT, ..unlimited(2) };
    let server = start_server(config, router()).await;
    let mut streams = Vec::new();
    for _ in 0..2 {
        let mut stream = connect(&server).await;
        send(&mut stream, post("/refused", "Content-Length: 100\r\n")).await;
        streams.push(stream);
    }
    // The clients neither read nor close.
    assert!(exchange(&mut connect(&server).await, &CLOSE.replace("GET /", "GET /refused")).await.contains("401"));
}

#[tokio::test]
async fn pipelined_requests_behind_a_refused_body_get_responses_in_order() {
    let server = start(4).await;
    let mut stream = connect(&server).await;
    let refused = post("/refused", "Content-Length: 5\r\n") + "hello";
    let chunked = post("/refused", "Transfer-Encoding: chunked\r\n") + "5\r\nhello\r\n0\r\n\r\n";
    let read = post("/read", "Content-Length: 3\r\n") + "two";
    let all = [refused.clone(), read.clone(), chunked, read.clone(), refused, read].concat();
    send(&mut stream, all).await;
    for status in [401, 200, 401, 200, 401, 200] {
        let response = read_response(&mut stream).await;
        assert_eq!((response.status, response.closes()), (status, false), "{}", response.head);
        assert!(status == 401 || response.body == b"two");
    }
}

/// Bytes after an abandoned body are not parsed as a request.
#[tokio::test]
async fn nothing_after_an_abandoned_body_gets_a_response() {
    let server = start(4).await;
    let mut stream = connect(&server).await;
    send(&mut stream, post("/refused", "Content-Length: 1000000\r\n") + &post("/read", "Content-Length: 2\r\n") + "ok")
        .await;
    assert!(read_response(&mut stream).await.closes());
    assert_closed(&mut stream).await;
    // The same after a final response to a request that expected 100 Continue.
    let mut stream = connect(&server).await;
    let expecting = post("/refused", "Content-Length: 5\r\nExpect: 100-continue\r\n");
    send(&mut stream, expecting + &post("/read", "Content-Length: 2\r\n") + "ok").await;
    assert!(read_response(&mut stream).await.closes());
    assert_closed(&mut stream).await;
}

#[tokio::test]
async fn a_client_that_disconnects_in_the_middle_of_a_body_releases_its_permit() {
    let server = start(1).await;
    for _ in 0..3 {
        let mut stream = connect(&server).await;
        send(&mut stream, post("/refused", "Content-Length: 100\r\n") + "half").await;
        drop(stream);
    }
    assert!(exchange(&mut connect(&server).await, &CLOSE.replace("GET /", "GET /refused")).await.contains("401"));
}

//! Many clients at once, and clients that use a connection in unusual ways.

use axum::http::StatusCode;
use axum::routing::any;

use super::bodies::{answer, ends, post, send};
use super::*;

fn router() -> Router {
    let slow = async |body: String| {
        tokio::time::sleep(Duration::from_millis(200)).await;
        body
    };
    Router::new()
        .route("/refused", any(async || StatusCode::UNAUTHORIZED))
        .route("/read", any(async |body: String| body))
        .route("/slow", any(slow))
}

async fn serving(connections: usize) -> Served {
    let listening = Listening { head_timeout: PATIENCE, take_timeout: PATIENCE, ..hasty(connections) };
    served(listening, router()).await
}

#[tokio::test]
async fn thirty_slow_bodies_at_once_delay_nobody_else() {
    let served = serving(64).await;
    let mut slow = Vec::new();
    for _ in 0..30 {
        let mut stream = connect(&served).await;
        send(&mut stream, post("/refused", "Content-Length: 100\r\n") + "half").await;
        slow.push(stream);
    }
    let mut stream = connect(&served).await;
    for _ in 0..20 {
        send(&mut stream, post("/read", "Content-Length: 2\r\n") + "ok").await;
        let answered = timeout(Duration::from_millis(500), answer(&mut stream)).await.expect("at once");
        assert_eq!(answered.status, 200);
    }
    for mut stream in slow {
        let refused = answer(&mut stream).await;
        assert!(refused.status == 401 && refused.closes(), "{}", refused.head);
        ends(&mut stream).await;
    }
}

#[tokio::test]
async fn places_are_free_again_after_bodies_that_never_end() {
    let served = serving(2).await;
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut stream = connect(&served).await;
        send(&mut stream, post("/refused", "Content-Length: 100\r\n")).await;
        held.push(stream);
    }
    // They read nothing and close nothing.
    assert!(answer_to(&mut connect(&served).await, &CLOSE.replace("GET /", "GET /refused")).await.contains("401"));
}

#[tokio::test]
async fn pipelined_requests_behind_a_refused_body_are_answered_in_order() {
    let served = serving(4).await;
    let mut stream = connect(&served).await;
    let refused = post("/refused", "Content-Length: 5\r\n") + "hello";
    let chunked = post("/refused", "Transfer-Encoding: chunked\r\n") + "5\r\nhello\r\n0\r\n\r\n";
    let read = post("/read", "Content-Length: 3\r\n") + "two";
    let all = [refused.clone(), read.clone(), chunked, read.clone(), refused, read].concat();
    send(&mut stream, all).await;
    for status in [401, 200, 401, 200, 401, 200] {
        let answered = answer(&mut stream).await;
        assert_eq!((answered.status, answered.closes()), (status, false), "{}", answered.head);
        assert!(status == 401 || answered.body == b"two");
    }
}

/// What follows a body that is given up is not taken for a request.
#[tokio::test]
async fn nothing_behind_a_body_that_is_given_up_is_answered() {
    let served = serving(4).await;
    let mut stream = connect(&served).await;
    send(&mut stream, post("/refused", "Content-Length: 1000000\r\n") + &post("/read", "Content-Length: 2\r\n") + "ok")
        .await;
    assert!(answer(&mut stream).await.closes());
    ends(&mut stream).await;
    // Nor what follows a request of which the client was told that its body is not wanted.
    let mut stream = connect(&served).await;
    let expecting = post("/refused", "Content-Length: 5\r\nExpect: 100-continue\r\n");
    send(&mut stream, expecting + &post("/read", "Content-Length: 2\r\n") + "ok").await;
    assert!(answer(&mut stream).await.closes());
    ends(&mut stream).await;
}

/// A body that breaks off: whoever sent it is gone, and its place is free.
#[tokio::test]
async fn whoever_leaves_in_the_middle_of_a_body_holds_no_place() {
    let served = serving(1).await;
    for _ in 0..3 {
        let mut stream = connect(&served).await;
        send(&mut stream, post("/refused", "Content-Length: 100\r\n") + "half").await;
        drop(stream);
    }
    assert!(answer_to(&mut connect(&served).await, &CLOSE.replace("GET /", "GET /refused")).await.contains("401"));
}

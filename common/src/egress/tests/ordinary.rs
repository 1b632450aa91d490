//! Receivers that mean well.

use std::sync::Arc;

use futures_util::future::join_all;
use hyper::header::{HeaderValue, USER_AGENT};
use tokio::net::TcpListener;

use super::receiver::{OK, Receiver};
use super::*;
use crate::egress::FailureKind;

#[tokio::test]
async fn the_bytes_arrive_as_given_with_the_given_headers_alone() {
    let receiver = Receiver::answering(OK).await;
    let headers = HeaderMap::from_iter([
        (USER_AGENT, HeaderValue::from_static("Tests/1")),
        ("webhook-id".parse().unwrap(), HeaderValue::from_static("evt_1")),
    ]);
    let body: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let target = target(&format!("http://Receiver.test.:{}/hooks?a=1", receiver.port), LOCAL);
    let received = here(LONG).post(&target, headers, body.clone().into()).await.unwrap();
    assert_eq!((received.status, received.body.as_slice(), received.retry_after), (200, b"ok".as_slice(), None));

    let [request] = receiver.requests().try_into().unwrap_or_else(|_| panic!("one request"));
    assert_eq!(request.body, body);
    let mut lines: Vec<_> = request.head.trim_end().lines().collect();
    assert_eq!(lines.remove(0), "POST /hooks?a=1 HTTP/1.1");
    lines.sort_unstable();
    let host = format!("host: receiver.test:{}", receiver.port);
    assert_eq!(lines, ["content-length: 100000", &host, "user-agent: Tests/1", "webhook-id: evt_1"]);
}

#[tokio::test]
async fn any_status_is_an_answer_and_no_redirect_is_followed() {
    let elsewhere = Receiver::answering(OK).await;
    for status in [204, 301, 302, 303, 307, 308, 400, 401, 410, 425, 500, 503] {
        let location = format!("http://127.0.0.1:{}/", elsewhere.port);
        let answer = format!("HTTP/1.1 {status} X\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n");
        let receiver = Receiver::answering(answer).await;
        assert_eq!(post(&here(LONG), receiver.port).await.unwrap().status, status);
        assert_eq!(receiver.requests().len(), 1, "{status}");
    }
    assert_eq!(elsewhere.connections(), 0);
}

#[tokio::test]
async fn a_receiver_may_ask_to_be_left_alone() {
    let receiver = Receiver::answering(b"HTTP/1.1 429 Slow down\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n").await;
    let received = post(&here(LONG), receiver.port).await.unwrap();
    assert_eq!((received.status, received.retry_after), (429, Some(Duration::from_secs(7))));
}

#[tokio::test]
async fn connections_are_used_again() {
    // Up to the limit a body is read to its end although little of it is kept.
    for length in [0, 2, 4096, 4097, 64 * 1024] {
        let mut answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n").into_bytes();
        answer.resize(answer.len() + length, b'x');
        let receiver = Receiver::answering(answer).await;
        let egress = here(LONG);
        for _ in 0..5 {
            let received = post(&egress, receiver.port).await.unwrap();
            assert_eq!(received.body, vec![b'x'; length.min(4096)]);
        }
        assert_eq!((receiver.requests().len(), receiver.connections()), (5, 1), "{length}");
    }
}

#[tokio::test]
async fn many_at_once_arrive_once_each() {
    let receiver = Receiver::answering(OK).await;
    let egress = here(LONG);
    let target = target(&format!("http://receiver.test:{}/", receiver.port), LOCAL);
    for _ in 0..3 {
        let posts = (0..100).map(|i| egress.post(&target, HeaderMap::new(), format!("{i}").into()));
        for received in join_all(posts).await {
            assert_eq!(received.unwrap().status, 200);
        }
    }
    let mut bodies: Vec<u32> = receiver
        .requests()
        .iter()
        .map(|request| std::str::from_utf8(&request.body).unwrap().parse().unwrap())
        .collect();
    bodies.sort_unstable();
    assert_eq!(bodies, (0..100).flat_map(|i| [i; 3]).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_connection_that_the_receiver_has_closed_is_replaced() {
    let receiver = Receiver::start(|mut peer| async move {
        peer.read().await;
        peer.write(OK).await;
    })
    .await;
    let egress = here(LONG);
    for connections in 1..=3 {
        assert_eq!(post(&egress, receiver.port).await.unwrap().status, 200);
        receiver.ended(connections).await;
        // The runtime sees what the sockets have to tell when it has nothing else to do.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!((receiver.requests().len(), receiver.connections()), (3, 3));
}

#[tokio::test]
async fn what_nobody_receives_fails_to_connect() {
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let failure = post(&here(LONG), port).await.unwrap_err();
    assert_eq!((failure.kind, failure.message.as_ref()), (FailureKind::Connect, "the connection was refused"));
}

#[tokio::test]
async fn a_name_without_an_address_fails_and_a_look_up_without_end_is_given_up() {
    struct Silent;
    impl Resolver for Silent {
        fn resolve(&self, _: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
            std::future::pending().boxed()
        }
    }
    let failure = post(&egress(LONG, &Names::all_are(&[])), 80).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Dns);
    let silent = Egress::with(SHORT, Clock::system(), Arc::new(Silent), Vec::new());
    let failure = post(&silent, 80).await.unwrap_err();
    assert_eq!((failure.kind, failure.message.as_ref()), (FailureKind::Timeout, "no complete answer within 300ms"));
    assert!(failure.duration >= SHORT);
}

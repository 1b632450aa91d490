//! Well-behaved receivers.

use std::sync::Arc;

use futures_util::future::join_all;
use hyper::header::{HeaderValue, USER_AGENT};
use tokio::net::TcpListener;

use super::receiver::{OK, Receiver};
use super::*;
use crate::FailureKind;

#[tokio::test]
async fn body_and_headers_arrive_unchanged() {
    let receiver = Receiver::responding(OK).await;
    let headers = HeaderMap::from_iter([
        (USER_AGENT, HeaderValue::from_static("Tests/1")),
        ("webhook-id".parse().unwrap(), HeaderValue::from_static("evt_1")),
    ]);
    let body: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let target = target(&format!("http://Receiver.test.:{}/hooks?a=1", receiver.port), LOCAL);
    let response = local_egress(LONG).post(&target, headers, body.clone().into()).await.unwrap();
    assert_eq!((response.status, response.body.as_slice(), response.retry_after), (200, b"ok".as_slice(), None));

    let [request] = receiver.requests().try_into().unwrap_or_else(|_| panic!("one request"));
    assert_eq!(request.body, body);
    let mut lines: Vec<_> = request.head.trim_end().lines().collect();
    assert_eq!(lines.remove(0), "POST /hooks?a=1 HTTP/1.1");
    lines.sort_unstable();
    let host = format!("host: receiver.test:{}", receiver.port);
    assert_eq!(lines, ["content-length: 100000", &host, "user-agent: Tests/1", "webhook-id: evt_1"]);
}

#[tokio::test]
async fn any_status_is_returned_and_redirects_are_not_followed() {
    let elsewhere = Receiver::responding(OK).await;
    for status in [204, 301, 302, 303, 307, 308, 400, 401, 410, 425, 500, 503] {
        let location = format!("http://127.0.0.1:{}/", elsewhere.port);
        let response = format!("HTTP/1.1 {status} X\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n");
        let receiver = Receiver::responding(response).await;
        assert_eq!(post(&local_egress(LONG), receiver.port).await.unwrap().status, status);
        assert_eq!(receiver.requests().len(), 1, "{status}");
    }
    assert_eq!(elsewhere.connections(), 0);
}

#[tokio::test]
async fn retry_after_is_returned() {
    let receiver = Receiver::responding(b"HTTP/1.1 429 Slow down\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n").await;
    let response = post(&local_egress(LONG), receiver.port).await.unwrap();
    assert_eq!((response.status, response.retry_after), (429, Some(Duration::from_secs(7))));
}

#[tokio::test]
async fn connections_are_reused() {
    // Bodies up to the limit are read to the end, although less is stored.
    for length in [0, 2, 4096, 4097, 64 * 1024] {
        let mut response = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n").into_bytes();
        response.resize(response.len() + length, b'x');
        let receiver = Receiver::responding(response).await;
        let egress = local_egress(LONG);
        for _ in 0..5 {
            let response = post(&egress, receiver.port).await.unwrap();
            assert_eq!(response.body, vec![b'x'; length.min(4096)]);
        }
        assert_eq!((receiver.requests().len(), receiver.connections()), (5, 1), "{length}");
    }
}

#[tokio::test]
async fn concurrent_requests_arrive_once_each() {
    let receiver = Receiver::responding(OK).await;
    let egress = local_egress(LONG);
    let target = target(&format!("http://receiver.test:{}/", receiver.port), LOCAL);
    for _ in 0..3 {
        let posts = (0..100).map(|i| egress.post(&target, HeaderMap::new(), format!("{i}").into()));
        for response in join_all(posts).await {
            assert_eq!(response.unwrap().status, 200);
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
async fn a_connection_closed_by_the_receiver_is_replaced() {
    let receiver = Receiver::start(|mut peer| async move {
        peer.read().await;
        peer.write(OK).await;
    })
    .await;
    let egress = local_egress(LONG);
    for connections in 1..=3 {
        assert_eq!(post(&egress, receiver.port).await.unwrap().status, 200);
        receiver.ended(connections).await;
        // The client has noticed the closed socket once its task for the connection has ended.
        wait_for_tasks(2).await;
    }
    assert_eq!((receiver.requests().len(), receiver.connections()), (3, 3));
}

#[tokio::test]
async fn a_closed_port_fails_to_connect() {
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let failure = post(&local_egress(LONG), port).await.unwrap_err();
    assert_eq!((failure.kind, failure.message.as_ref()), (FailureKind::Connect, "the connection was refused"));
}

#[tokio::test(start_paused = true)]
async fn a_name_without_an_address_fails_and_an_endless_lookup_times_out() {
    struct Silent;
    impl Resolver for Silent {
        fn resolve(&self, _: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
            std::future::pending().boxed()
        }
    }
    let failure = post(&egress(LONG, &Names::resolving_to(&[])), 80).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Dns);
    let silent = Egress::with(LONG, Clock::system(), Arc::new(Silent), Vec::new());
    let failure = post(&silent, 80).await.unwrap_err();
    assert_eq!((failure.kind, failure.message.as_ref()), (FailureKind::Timeout, "no complete response within 60s"));
    assert!(failure.duration >= LONG);
}

//! Receivers that close the connection early, respond slowly, or send too much.

use std::sync::atomic::AtomicBool;

use super::receiver::{OK, Receiver};
use super::*;
use crate::FailureKind;

/// Posts to a receiver that reads the request and closes the connection, and checks that the request is not sent again:
/// on a new connection, and on a reused one, where HTTP clients often retry. Returns both failures.
async fn closed_after_request(reset: bool) -> [Failure; 2] {
    let after = async |responses: usize| {
        let receiver = Receiver::start(move |mut peer| async move {
            for _ in 0..responses {
                peer.read().await;
                peer.write(OK).await;
            }
            peer.read().await;
            if reset {
                peer.stream.set_zero_linger().unwrap();
            }
        })
        .await;
        let egress = local_egress(LONG);
        for _ in 0..responses {
            assert_eq!(post(&egress, receiver.port).await.unwrap().status, 200);
        }
        let failure = post(&egress, receiver.port).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Connect);
        receiver.ended(1).await;
        assert_eq!((receiver.requests().len(), receiver.connections()), (responses + 1, 1));
        failure
    };
    [after(0).await, after(1).await]
}

#[tokio::test]
async fn a_request_is_not_repeated_after_a_connection_reset() {
    closed_after_request(true).await;
}

#[tokio::test]
async fn a_request_is_not_repeated_after_a_closed_connection() {
    for failure in closed_after_request(false).await {
        assert_eq!(failure.message, "the connection was closed before the response was complete");
    }
}

/// The parts of a response that take the whole timeout together.
const PARTS: u32 = 100;

/// A receiver that sends `first` and then repeats `then` until the connection is closed, at the latest after twice the
/// timeout. The clock advances with each part.
async fn endless(first: &'static [u8], then: Vec<u8>) -> Receiver {
    let then = Arc::new(then);
    Receiver::start(move |mut peer| {
        let then = then.clone();
        async move {
            peer.read().await;
            let mut open = peer.write(first).await;
            for _ in 0..2 * PARTS {
                if !open {
                    return;
                }
                open = peer.write(&then).await;
                pass(LONG / PARTS).await;
            }
        }
    })
    .await
}

#[tokio::test]
async fn an_endless_response_times_out_and_the_connection_is_closed() {
    let flood = "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(1_000);
    for (first, then) in [
        // A success status, but the response never ends.
        ("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", "x"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\nx\r\n"),
        ("HTTP/1.1 200 OK\r\n\r\n", "x"),
        ("HTTP/1.1 200 OK\r\nX-Header: ", "x"),
        // Endless informational responses, singly and as many as the connection carries.
        ("", "HTTP/1.1 100 Continue\r\n\r\n"),
        ("", flood.as_str()),
    ] {
        let receiver = endless(first.as_bytes(), then.into()).await;
        let failure = post(&local_egress(LONG), receiver.port).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Timeout, "{first}{}", &then[..then.len().min(60)]);
        receiver.ended(1).await;
        assert_eq!((receiver.requests().len(), receiver.connections()), (1, 1));
    }
}

#[tokio::test]
async fn a_silent_receiver_times_out_and_the_connection_is_closed() {
    let receiver = Receiver::start(|mut peer| async move {
        peer.read().await;
        pass(LONG).await;
        peer.closed().await;
    })
    .await;
    let failure = post(&local_egress(LONG), receiver.port).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Timeout);
    receiver.ended(1).await;
    assert_eq!(receiver.requests().len(), 1);
}

#[tokio::test]
async fn only_the_beginning_of_a_long_body_is_read() {
    const MEBIBYTE: usize = 1 << 20;
    for head in
        ["HTTP/1.1 200 OK\r\nContent-Length: 209715200\r\n\r\n", "HTTP/1.1 202 OK\r\n\r\n", "HTTP/1.1 500 X\r\n\r\n"]
    {
        let written = Arc::new(AtomicUsize::new(0));
        let receiver = Receiver::start({
            let written = written.clone();
            move |mut peer| {
                let written = written.clone();
                async move {
                    peer.read().await;
                    peer.write(head.as_bytes()).await;
                    let chunk = vec![b'x'; MEBIBYTE];
                    while written.load(Ordering::SeqCst) < 200 * MEBIBYTE && peer.write(&chunk).await {
                        written.fetch_add(MEBIBYTE, Ordering::SeqCst);
                    }
                }
            }
        })
        .await;
        let response = post(&local_egress(LONG), receiver.port).await.unwrap();
        assert_eq!((response.status.to_string(), response.body), (head[9..12].to_owned(), vec![b'x'; 4096]));
        receiver.ended(1).await;
        let written = written.load(Ordering::SeqCst);
        assert!(written < 100 * MEBIBYTE, "{written} bytes were read");
    }
}

#[tokio::test]
async fn invalid_responses_fail_with_their_kind() {
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "X-Header: x\r\n".repeat(101));
    let large = format!("HTTP/1.1 200 OK\r\nX-Header: {}\r\n\r\n", "x".repeat(200_000));
    for (response, kind, message) in [
        ("SSH-2.0-OpenSSH_9.9\r\n\r\n", FailureKind::Protocol, "the response is not HTTP/1.1"),
        ("HTTP/1.1 abc\r\n\r\n", FailureKind::Protocol, "the response is not HTTP/1.1"),
        ("HTTP/1.1 200 OK\r\nno header\r\n\r\n", FailureKind::Protocol, "the response is not HTTP/1.1"),
        ("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", FailureKind::Protocol, "the response is not HTTP/1.1"),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
            FailureKind::Protocol,
            "the response is not HTTP/1.1",
        ),
        (many.as_str(), FailureKind::Protocol, "the head of the response is too large"),
        (large.as_str(), FailureKind::Protocol, "the head of the response is too large"),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfour",
            FailureKind::Connect,
            "the connection was closed before the response was complete",
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nfour",
            FailureKind::Connect,
            "the connection was closed before the response was complete",
        ),
        ("HTTP/1.1 200", FailureKind::Connect, "the connection was closed before the response was complete"),
    ] {
        let bytes = response.as_bytes().to_vec();
        let receiver = Receiver::start(move |mut peer| {
            let bytes = bytes.clone();
            async move {
                peer.read().await;
                peer.write(&bytes).await;
            }
        })
        .await;
        let start = &response[..response.len().min(60)];
        let failure = post(&local_egress(LONG), receiver.port).await.expect_err(start);
        assert_eq!((failure.kind, failure.message.as_ref()), (kind, message), "{start}");
        assert_eq!(receiver.requests().len(), 1, "{start}");
    }
}

#[tokio::test]
async fn bytes_after_a_response_do_not_answer_the_next_request() {
    let forged = Arc::new(AtomicBool::new(false));
    let receiver = Receiver::start({
        let forged = forged.clone();
        move |mut peer| {
            let forged = forged.clone();
            async move {
                while peer.read().await {
                    let response = if forged.swap(true, Ordering::SeqCst) {
                        "HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n"
                    } else {
                        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 204 Forged\r\n\r\n"
                    };
                    peer.write(response.as_bytes()).await;
                }
            }
        }
    })
    .await;
    let egress = local_egress(LONG);
    assert_eq!(post(&egress, receiver.port).await.unwrap().status, 200);
    // The client has closed the connection, so the next request opens another.
    receiver.ended(1).await;
    assert_eq!(post(&egress, receiver.port).await.unwrap().status, 500);
    assert_eq!(receiver.connections(), 2);
}

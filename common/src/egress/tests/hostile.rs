//! Receivers that break off, dawdle, or send more than anybody asked for.

use std::sync::atomic::AtomicBool;

use super::receiver::{OK, Receiver};
use super::*;
use crate::egress::FailureKind;

/// Posts to a receiver that takes the request and ends the connection, and sees that nothing is sent again: on a new connection,
/// and on one that was used before, where clients like to try again. Answers what was told of each.
async fn broken_off(reset: bool) -> [Failure; 2] {
    let after = async |good_answers: usize| {
        let receiver = Receiver::start(move |mut peer| async move {
            for _ in 0..good_answers {
                peer.read().await;
                peer.write(OK).await;
            }
            peer.read().await;
            if reset {
                peer.stream.set_zero_linger().unwrap();
            }
        })
        .await;
        let egress = here(LONG);
        for _ in 0..good_answers {
            assert_eq!(post(&egress, receiver.port).await.unwrap().status, 200);
        }
        let failure = post(&egress, receiver.port).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Connect);
        receiver.ended(1).await;
        assert_eq!((receiver.requests().len(), receiver.connections()), (good_answers + 1, 1));
        failure
    };
    [after(0).await, after(1).await]
}

#[tokio::test]
async fn a_request_that_was_received_and_reset_is_not_sent_again() {
    broken_off(true).await;
}

#[tokio::test]
async fn a_request_that_was_received_and_hung_up_on_is_not_sent_again() {
    for failure in broken_off(false).await {
        assert_eq!(failure.message, "the connection was closed before the answer was complete");
    }
}

/// A receiver that sends this, and then this again and again, until it is hung up on.
async fn without_end(first: &'static [u8], then: Vec<u8>, pause: Duration) -> Receiver {
    let then = Arc::new(then);
    Receiver::start(move |mut peer| {
        let then = then.clone();
        async move {
            peer.read().await;
            let mut open = peer.write(first).await;
            while open {
                open = peer.write(&then).await;
                if !pause.is_zero() {
                    tokio::time::sleep(pause).await;
                }
            }
        }
    })
    .await
}

const DRIP: Duration = Duration::from_millis(20);

#[tokio::test]
async fn an_answer_without_end_is_given_up_and_hung_up_on() {
    for (first, then, pause) in [
        // Good in status, and never whole.
        ("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", "x", DRIP),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\nx\r\n", DRIP),
        ("HTTP/1.1 200 OK\r\n\r\n", "x", DRIP),
        ("HTTP/1.1 200 OK\r\nX-Header: ", "x", DRIP),
        // Heads that only announce another, slowly and as fast as can be.
        ("", "HTTP/1.1 100 Continue\r\n\r\n", DRIP),
        ("", "HTTP/1.1 103 Early Hints\r\n\r\n", Duration::ZERO),
    ] {
        let receiver = without_end(first.as_bytes(), then.into(), pause).await;
        let failure = post(&here(SHORT), receiver.port).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Timeout, "{first}{then}");
        receiver.ended(1).await;
        assert_eq!((receiver.requests().len(), receiver.connections()), (1, 1));
    }
}

#[tokio::test]
async fn silence_is_given_up_and_hung_up_on() {
    let receiver = Receiver::start(|mut peer| async move {
        peer.read().await;
        peer.closed().await;
    })
    .await;
    let failure = post(&here(SHORT), receiver.port).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Timeout);
    receiver.ended(1).await;
    assert_eq!(receiver.requests().len(), 1);
}

#[tokio::test]
async fn of_a_long_body_the_beginning_is_kept_and_the_rest_is_left() {
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
        let received = post(&here(LONG), receiver.port).await.unwrap();
        assert_eq!((received.status.to_string(), received.body), (head[9..12].to_owned(), vec![b'x'; 4096]));
        receiver.ended(1).await;
        let written = written.load(Ordering::SeqCst);
        assert!(written < 100 * MEBIBYTE, "{written} bytes were taken in");
    }
}

#[tokio::test]
async fn what_is_no_answer_fails_by_its_kind() {
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "X-Header: x\r\n".repeat(101));
    let large = format!("HTTP/1.1 200 OK\r\nX-Header: {}\r\n\r\n", "x".repeat(200_000));
    for (answer, kind, message) in [
        ("SSH-2.0-OpenSSH_9.9\r\n\r\n", FailureKind::Protocol, "the answer is not HTTP/1.1"),
        ("HTTP/1.1 abc\r\n\r\n", FailureKind::Protocol, "the answer is not HTTP/1.1"),
        ("HTTP/1.1 200 OK\r\nno header\r\n\r\n", FailureKind::Protocol, "the answer is not HTTP/1.1"),
        ("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", FailureKind::Protocol, "the answer is not HTTP/1.1"),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
            FailureKind::Protocol,
            "the answer is not HTTP/1.1",
        ),
        (many.as_str(), FailureKind::Protocol, "the head of the answer is too large"),
        (large.as_str(), FailureKind::Protocol, "the head of the answer is too large"),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfour",
            FailureKind::Connect,
            "the connection was closed before the answer was complete",
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nfour",
            FailureKind::Connect,
            "the connection was closed before the answer was complete",
        ),
        ("HTTP/1.1 200", FailureKind::Connect, "the connection was closed before the answer was complete"),
    ] {
        let bytes = answer.as_bytes().to_vec();
        let receiver = Receiver::start(move |mut peer| {
            let bytes = bytes.clone();
            async move {
                peer.read().await;
                peer.write(&bytes).await;
            }
        })
        .await;
        let start = &answer[..answer.len().min(60)];
        let failure = post(&here(LONG), receiver.port).await.expect_err(start);
        assert_eq!((failure.kind, failure.message.as_ref()), (kind, message), "{start}");
        assert_eq!(receiver.requests().len(), 1, "{start}");
    }
}

#[tokio::test]
async fn what_follows_an_answer_is_no_answer_to_the_next_request() {
    let forged = Arc::new(AtomicBool::new(false));
    let receiver = Receiver::start({
        let forged = forged.clone();
        move |mut peer| {
            let forged = forged.clone();
            async move {
                while peer.read().await {
                    let answer = if forged.swap(true, Ordering::SeqCst) {
                        "HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n"
                    } else {
                        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 204 Forged\r\n\r\n"
                    };
                    peer.write(answer.as_bytes()).await;
                }
            }
        }
    })
    .await;
    let egress = here(LONG);
    assert_eq!(post(&egress, receiver.port).await.unwrap().status, 200);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(post(&egress, receiver.port).await.unwrap().status, 500);
    assert_eq!(receiver.connections(), 2);
}

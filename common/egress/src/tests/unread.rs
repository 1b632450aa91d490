//! Receivers that read nothing of a request, so that its connection can never finish writing it.

use std::sync::mpsc;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};

use super::receiver::{OK, Peer, Receiver};
use super::tls::{acceptor, authority};
use super::*;
use crate::FailureKind;

/// How long the kernel waits for a receiver that reads nothing. Longer than any step of an exchange takes.
const UNREAD: Duration = Duration::from_secs(5);

/// Posts more than all buffers hold to a receiver that reads only the first byte, and checks that the connection ends
/// although the timeout ends only the request.
async fn post_unread(scheme: &'static str, responds: bool) {
    let (body, acceptor) = (Bytes::from(vec![b'x'; 64 << 20]), acceptor());
    let receiver = Receiver::start(move |mut peer| {
        let acceptor = acceptor.clone();
        async move {
            if scheme == "http" {
                return read_only_first_byte(&mut peer, responds).await;
            }
            let mut peer = peer.under(async |stream| acceptor.accept(stream).await).await.unwrap();
            read_only_first_byte(&mut peer, responds).await;
        }
    })
    .await;
    let before = Handle::current().metrics().num_alive_tasks();
    let egress =
        Egress::with(UNREAD, Clock::system(), Arc::new(Names::resolving_to(&["127.0.0.1"])), vec![authority()]);
    let target = target(&format!("{scheme}://receiver.test:{}/", receiver.port), LOCAL);
    let clock = StoppedClock::new();
    let outcome = egress.post(&target, HeaderMap::new(), body).await;
    drop(clock);
    match outcome {
        Ok(response) => assert!(responds && response.status == 200),
        Err(failure) => assert!(!responds && failure.kind == FailureKind::Timeout, "{failure:?}"),
    }
    // One task is the receiver's side; ours must have ended.
    wait_for_tasks(before + 1).await;
    drop((receiver, egress));
    wait_for_tasks(0).await;
}

/// Responds to the request, or lets its timeout end.
async fn read_only_first_byte<S: AsyncRead + AsyncWrite + Unpin>(peer: &mut Peer<S>, responds: bool) {
    peer.stream.read_u8().await.unwrap();
    if responds {
        assert!(peer.write(OK).await);
    } else {
        advance(UNREAD).await;
    }
    std::future::pending().await
}

/// Stops the clock of the timeouts until it is dropped. It does not advance even while every task waits.
struct StoppedClock(#[expect(dead_code, reason = "its drop ends the blocking task")] mpsc::Sender<()>);

impl StoppedClock {
    fn new() -> Self {
        let (running, dropped) = mpsc::channel();
        // Tokio advances a paused clock only if no blocking task runs. This one ends if the test is stuck.
        tokio::task::spawn_blocking(move || dropped.recv_timeout(LONG));
        pause();
        Self(running)
    }
}

impl Drop for StoppedClock {
    fn drop(&mut self) {
        resume();
    }
}

#[tokio::test]
async fn a_receiver_that_reads_nothing_cannot_keep_its_connection() {
    post_unread("http", false).await;
}

#[tokio::test]
async fn a_receiver_that_responds_and_reads_nothing_cannot_keep_its_connection() {
    post_unread("http", true).await;
}

#[tokio::test]
async fn a_receiver_with_tls_that_reads_nothing_cannot_keep_its_connection() {
    post_unread("https", false).await;
}

#[tokio::test]
async fn a_receiver_with_tls_that_responds_and_reads_nothing_cannot_keep_its_connection() {
    post_unread("https", true).await;
}

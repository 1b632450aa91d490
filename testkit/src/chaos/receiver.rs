//! A merchant's webhook endpoint that records deliveries, and fails or hangs on the first attempt of some events.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::Result;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::sleep,
};

use super::time::Clock;

/// One delivery as it arrived.
#[derive(Clone, Debug, Default)]
pub(super) struct Received {
    pub(super) endpoint: usize,
    pub(super) event: String,
    pub(super) body: String,
    /// Whether it was answered with 200.
    pub(super) accepted: bool,
    /// When it arrived, by the run's clock.
    pub(super) at: i64,
}

type Deliveries = Arc<Mutex<Vec<Received>>>;

/// A server that stops when dropped.
#[derive(Debug)]
pub(super) struct Receiver {
    /// `http://127.0.0.1:<port>/`, to which the endpoint number is appended.
    pub(super) url: String,
    deliveries: Deliveries,
    _server: JoinSet<()>,
}

impl Receiver {
    pub(super) async fn start(clock: Clock) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/", listener.local_addr()?);
        let deliveries = Deliveries::default();
        let mut server = JoinSet::new();
        server.spawn(accept(listener, Arc::clone(&deliveries), clock));
        Ok(Self { url, deliveries, _server: server })
    }

    pub(super) fn received(&self) -> Vec<Received> {
        self.deliveries.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn accept(listener: TcpListener, deliveries: Deliveries, clock: Clock) {
    let already_failed = Arc::new(Mutex::new(BTreeSet::new()));
    let mut connections = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                drop(connections.spawn(serve(stream, Arc::clone(&deliveries), Arc::clone(&already_failed), clock)))
            }
            Err(_) => sleep(Duration::from_millis(10)).await,
        }
        while connections.try_join_next().is_some() {}
    }
}

/// The response to a delivery. Only endpoints with odd numbers misbehave, and only on the first attempt.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Behavior {
    Accepts,
    Fails,
    Hangs,
    HangsUp,
}

fn behavior(endpoint: usize, event: &str, already_failed: &Mutex<BTreeSet<(usize, String)>>) -> Behavior {
    let number = event.bytes().fold(7u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
    let behavior = match number % 40 {
        0..3 => Behavior::Fails,
        3 => Behavior::Hangs,
        4 => Behavior::HangsUp,
        _ => Behavior::Accepts,
    };
    let is_first_attempt = |misbehaves: bool| {
        misbehaves && already_failed.lock().unwrap_or_else(PoisonError::into_inner).insert((endpoint, event.to_owned()))
    };
    if endpoint % 2 == 1 && is_first_attempt(behavior != Behavior::Accepts) { behavior } else { Behavior::Accepts }
}

async fn serve(
    mut stream: TcpStream,
    deliveries: Deliveries,
    already_failed: Arc<Mutex<BTreeSet<(usize, String)>>>,
    clock: Clock,
) {
    let mut buffer = Vec::with_capacity(4096);
    loop {
        match stream.read_buf(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let Some((mut received, length)) = message(&buffer) else { continue };
        buffer.drain(..length);
        let behavior = behavior(received.endpoint, &received.event, &already_failed);
        (received.accepted, received.at) = (behavior == Behavior::Accepts, clock.now());
        deliveries.lock().unwrap_or_else(PoisonError::into_inner).push(received);
        let response: &[u8] = match behavior {
            Behavior::Accepts => b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
            Behavior::Fails => b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 4\r\n\r\nbusy",
            Behavior::HangsUp => return,
            Behavior::Hangs => {
                sleep(Duration::from_secs(20)).await;
                return;
            }
        };
        if stream.write_all(response).await.is_err() {
            return;
        }
    }
}

/// The first complete request in the buffer, and its length.
fn message(buffer: &[u8]) -> Option<(Received, usize)> {
    let end = buffer.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
    let header = |name: &str| {
        let value = head.lines().find_map(|line| {
            let (header_name, value) = line.split_once(':')?;
            header_name.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        });
        value.unwrap_or_default()
    };
    let end_of_body = end + header("content-length").parse::<usize>().unwrap_or(0);
    let body = String::from_utf8_lossy(buffer.get(end..end_of_body)?).into_owned();
    let endpoint = head.split(' ').nth(1)?.trim_start_matches('/').parse().ok()?;
    Some((Received { endpoint, event: header("webhook-id"), body, accepted: false, at: 0 }, end_of_body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_parsed_once_complete() {
        let text = b"POST /3 HTTP/1.1\r\nWebhook-Id: evt_1\r\nContent-Length: 2\r\n\r\n{}";
        let (received, length) = message(text).expect("a complete request");
        assert_eq!((received.endpoint, received.event.as_str(), received.body.as_str()), (3, "evt_1", "{}"));
        assert_eq!(length, text.len());
        assert!(message(&text[..text.len() - 1]).is_none());
    }
}

//! A merchant's endpoint that remembers what it was sent, and fails or hangs once for some events.

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
    /// Whether it was answered 200.
    pub(super) taken: bool,
    /// When it arrived, by the run's clock.
    pub(super) at: i64,
}

type Kept = Arc<Mutex<Vec<Received>>>;

/// A server that ends when it is dropped.
#[derive(Debug)]
pub(super) struct Receiver {
    /// `http://127.0.0.1:<port>/<endpoint>`, less the number.
    pub(super) url: String,
    kept: Kept,
    _server: JoinSet<()>,
}

impl Receiver {
    pub(super) async fn start(clock: Clock) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/", listener.local_addr()?);
        let kept = Kept::default();
        let mut server = JoinSet::new();
        server.spawn(accept(listener, Arc::clone(&kept), clock));
        Ok(Self { url, kept, _server: server })
    }

    pub(super) fn received(&self) -> Vec<Received> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn accept(listener: TcpListener, kept: Kept, clock: Clock) {
    let failed = Arc::new(Mutex::new(BTreeSet::new()));
    let mut connections = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => drop(connections.spawn(serve(stream, Arc::clone(&kept), Arc::clone(&failed), clock))),
            Err(_) => sleep(Duration::from_millis(10)).await,
        }
        while connections.try_join_next().is_some() {}
    }
}

/// What an endpoint does with an event. The uneven ones misbehave at the first attempt alone.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    Takes,
    Fails,
    Hangs,
    HangsUp,
}

fn manner(endpoint: usize, event: &str, failed: &Mutex<BTreeSet<(usize, String)>>) -> Manner {
    let number = event.bytes().fold(7u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
    let manner = match number % 40 {
        0..3 => Manner::Fails,
        3 => Manner::Hangs,
        4 => Manner::HangsUp,
        _ => Manner::Takes,
    };
    let first = |misbehaves: bool| {
        misbehaves && failed.lock().unwrap_or_else(PoisonError::into_inner).insert((endpoint, event.to_owned()))
    };
    if endpoint % 2 == 1 && first(manner != Manner::Takes) { manner } else { Manner::Takes }
}

async fn serve(mut stream: TcpStream, kept: Kept, failed: Arc<Mutex<BTreeSet<(usize, String)>>>, clock: Clock) {
    let mut buffer = Vec::with_capacity(4096);
    loop {
        match stream.read_buf(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let Some((mut received, length)) = message(&buffer) else { continue };
        buffer.drain(..length);
        let manner = manner(received.endpoint, &received.event, &failed);
        (received.taken, received.at) = (manner == Manner::Takes, clock.now());
        kept.lock().unwrap_or_else(PoisonError::into_inner).push(received);
        let answer: &[u8] = match manner {
            Manner::Takes => b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
            Manner::Fails => b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 4\r\n\r\nbusy",
            Manner::HangsUp => return,
            Manner::Hangs => {
                sleep(Duration::from_secs(20)).await;
                return;
            }
        };
        if stream.write_all(answer).await.is_err() {
            return;
        }
    }
}

/// A whole request at the beginning of what was read, and its length.
fn message(buffer: &[u8]) -> Option<(Received, usize)> {
    let end = buffer.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
    let header = |name: &str| {
        let found = head.lines().find_map(|line| {
            let (given, value) = line.split_once(':')?;
            given.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        });
        found.unwrap_or_default()
    };
    let whole = end + header("content-length").parse::<usize>().unwrap_or(0);
    let body = String::from_utf8_lossy(buffer.get(end..whole)?).into_owned();
    let endpoint = head.split(' ').nth(1)?.trim_start_matches('/').parse().ok()?;
    Some((Received { endpoint, event: header("webhook-id"), body, taken: false, at: 0 }, whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_when_it_is_whole() {
        let text = b"POST /3 HTTP/1.1\r\nWebhook-Id: evt_1\r\nContent-Length: 2\r\n\r\n{}";
        let (received, length) = message(text).expect("whole");
        assert_eq!((received.endpoint, received.event.as_str(), received.body.as_str()), (3, "evt_1", "{}"));
        assert_eq!(length, text.len());
        assert!(message(&text[..text.len() - 1]).is_none());
    }
}

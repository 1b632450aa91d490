//! A receiver on loopback with configurable behavior per connection.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::eventually;

pub(super) const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// A received request.
#[derive(Clone)]
pub(super) struct Request {
    pub(super) head: String,
    pub(super) body: Vec<u8>,
}

#[derive(Default)]
struct Log {
    requests: Mutex<Vec<Request>>,
    connections: AtomicUsize,
    ended: AtomicUsize,
}

/// Stops when dropped.
pub(super) struct Receiver {
    pub(super) port: u16,
    log: Arc<Log>,
    _serving: JoinSet<()>,
}

impl Receiver {
    /// Runs `serve` for each connection, which is closed when `serve` returns.
    pub(super) async fn start<F, Done>(serve: F) -> Self
    where
        F: Fn(Peer<TcpStream>) -> Done + Send + 'static,
        Done: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let log = Arc::new(Log::default());
        let mut serving = JoinSet::new();
        serving.spawn({
            let log = log.clone();
            async move {
                let mut connections = JoinSet::new();
                while let Ok((stream, _)) = listener.accept().await {
                    log.connections.fetch_add(1, Ordering::SeqCst);
                    let served = serve(Peer { stream, log: log.clone() });
                    let log = log.clone();
                    connections.spawn(async move {
                        served.await;
                        log.ended.fetch_add(1, Ordering::SeqCst);
                    });
                }
            }
        });
        Self { port, log, _serving: serving }
    }

    /// Sends the same response to every request, and keeps connections open.
    pub(super) async fn responding(response: impl Into<Vec<u8>>) -> Self {
        let response = Arc::new(response.into());
        Self::start(move |mut peer| {
            let response = response.clone();
            async move { while peer.read().await && peer.write(&response).await {} }
        })
        .await
    }

    pub(super) fn requests(&self) -> Vec<Request> {
        self.log.requests.lock().unwrap().clone()
    }

    pub(super) fn connections(&self) -> usize {
        self.log.connections.load(Ordering::SeqCst)
    }

    /// Waits until this many connections have ended.
    pub(super) async fn ended(&self, connections: usize) {
        eventually("the connections have ended", || self.log.ended.load(Ordering::SeqCst) >= connections).await;
    }
}

/// One connection, from the receiver's side.
pub(super) struct Peer<S> {
    pub(super) stream: S,
    log: Arc<Log>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Peer<S> {
    /// Wraps the connection in a layer such as TLS.
    ///
    /// # Errors
    /// The layer's.
    pub(super) async fn under<T, E>(self, layer: impl AsyncFnOnce(S) -> Result<T, E>) -> Result<Peer<T>, E> {
        Ok(Peer { stream: layer(self.stream).await?, log: self.log })
    }

    /// Reads and records a request; false if the connection ended before it was complete.
    pub(super) async fn read(&mut self) -> bool {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            match self.stream.read_u8().await {
                Ok(byte) => head.push(byte),
                Err(_) => return false,
            }
        }
        let head = String::from_utf8(head).unwrap();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("a length");
        let mut body = vec![0; length.parse().unwrap()];
        if self.stream.read_exact(&mut body).await.is_err() {
            return false;
        }
        self.log.requests.lock().unwrap().push(Request { head, body });
        true
    }

    /// False if the connection has ended.
    pub(super) async fn write(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).await.is_ok() && self.stream.flush().await.is_ok()
    }

    /// Waits until the client has closed the connection.
    pub(super) async fn closed(&mut self) {
        let mut rest = vec![0; 64 * 1024];
        while self.stream.read(&mut rest).await.is_ok_and(|read| read > 0) {}
    }
}

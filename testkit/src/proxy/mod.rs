//! A TCP proxy that can cut connections, delay, drop or slow down responses, and replace them with errors.

mod observations;

use std::{
    collections::BTreeSet,
    future::pending,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use anyhow::Result;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpSocket, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    task::JoinSet,
    time::{sleep, timeout},
};

use self::observations::{LastCharge, Observations, complete_request};

const FAILURE: &[u8] = b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
const BUSY: &[u8] = b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
/// The accept backlog of the listener.
const BACKLOG: u32 = 1024;

/// What happens to the traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Pass,
    /// Closes all connections and accepts no new ones.
    Cut,
    /// Delays each response.
    Delay(Duration),
    /// Reads responses and discards them.
    Lose,
    /// Sends responses byte by byte.
    Drip,
    /// Reads the response and sends a 502 instead.
    Fail,
    /// Stops listening: connections are refused.
    Refuse,
    /// Rejects each request with 429 without forwarding it.
    TooManyRequests,
}

/// What happens to the connections that exist now; later ones are not affected.
#[derive(Clone, Copy, Debug)]
enum Interruption {
    Close,
    Stall,
}

#[derive(Debug)]
struct Shared {
    targets: Vec<SocketAddr>,
    mode: watch::Sender<Mode>,
    interruption: watch::Sender<Interruption>,
    observations: Mutex<Observations>,
}

impl Shared {
    fn observations(&self) -> MutexGuard<'_, Observations> {
        self.observations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A listening proxy that stops when dropped.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    _server: JoinSet<()>,
}

impl Proxy {
    /// Forwards each connection to the first of these ports that accepts it.
    ///
    /// # Errors
    /// When there is no free port.
    pub async fn start(ports: &[u16]) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", crate::ports::free()?)).await?;
        let port = listener.local_addr()?.port();
        let targets = ports.iter().map(|port| SocketAddr::from(([127, 0, 0, 1], *port))).collect();
        let shared = Arc::new(Shared {
            targets,
            mode: watch::Sender::new(Mode::Pass),
            interruption: watch::Sender::new(Interruption::Close),
            observations: Mutex::default(),
        });
        let mut server = JoinSet::new();
        server.spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self { port, shared, _server: server })
    }

    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn set_mode(&self, mode: Mode) {
        self.shared.mode.send_replace(mode);
    }

    /// Closes the existing connections.
    pub fn close_connections(&self) {
        self.shared.interruption.send_replace(Interruption::Close);
    }

    /// Leaves the existing connections open, but no more bytes pass.
    pub fn stall_connections(&self) {
        self.shared.interruption.send_replace(Interruption::Stall);
    }

    /// Starts to record which of these words are sent to the server.
    pub fn watch(&self, words: Vec<String>) {
        self.shared.observations().watch(words);
    }

    /// The watched words that were sent.
    #[must_use]
    pub fn sent(&self) -> BTreeSet<String> {
        self.shared.observations().sent.clone()
    }

    /// The user name of each modifying request that was rejected since then.
    #[must_use]
    pub fn rejected(&self, since: Instant) -> Vec<String> {
        self.shared.observations().rejected(since)
    }

    /// The references of requests whose responses were dropped, delayed, slowed down or replaced.
    #[must_use]
    pub fn lost(&self) -> BTreeSet<String> {
        self.shared.observations().lost.clone()
    }
}

async fn accept(mut listener: TcpListener, shared: Arc<Shared>) {
    let Ok(address) = listener.local_addr() else { return };
    let mut connections = JoinSet::new();
    let mut mode = shared.mode.subscribe();
    loop {
        let refuses = async { mode.wait_for(|mode| *mode == Mode::Refuse).await.is_ok() };
        let accepted = tokio::select! {
            _ = refuses => None,
            accepted = listener.accept() => Some(accepted.ok()),
        };
        if let Some(accepted) = accepted {
            dispatch(accepted, &shared, &mut connections).await;
        } else {
            drop(listener);
            // Binding without listening refuses connections and keeps the port reserved.
            let Some(bound_socket) = bind_when_free(address).await else { return };
            let mode_changed = async { mode.wait_for(|mode| *mode != Mode::Refuse).await.is_ok() };
            mode_changed.await;
            let Ok(listening) = bound_socket.listen(BACKLOG) else { return };
            listener = listening;
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn dispatch(accepted: Option<(TcpStream, SocketAddr)>, shared: &Arc<Shared>, connections: &mut JoinSet<()>) {
    let mode = *shared.mode.borrow();
    match (accepted, mode) {
        (None, _) => sleep(Duration::from_millis(10)).await,
        (Some(_), Mode::Cut | Mode::Refuse) => {}
        (Some((client, _)), Mode::TooManyRequests) => drop(connections.spawn(reject(client, Arc::clone(shared)))),
        (Some((client, _)), Mode::Pass | Mode::Delay(_) | Mode::Lose | Mode::Drip | Mode::Fail) => {
            connections.spawn(forward(client, Arc::clone(shared)));
        }
    }
}

/// A socket bound to this address, as soon as the port is free.
async fn bind_when_free(address: SocketAddr) -> Option<TcpSocket> {
    for _ in 0..500 {
        let socket = TcpSocket::new_v4().ok()?;
        let _ = socket.set_reuseaddr(true);
        if socket.bind(address).is_ok() {
            return Some(socket);
        }
        sleep(Duration::from_millis(10)).await;
    }
    None
}

/// Reads a request and rejects it with 429.
async fn reject(mut client: TcpStream, shared: Arc<Shared>) {
    let (mut bytes, mut buffer) = (Vec::new(), vec![0; 16 * 1024]);
    while let Ok(Ok(count @ 1..)) = timeout(Duration::from_secs(2), client.read(&mut buffer)).await {
        bytes.extend_from_slice(&buffer[..count]);
        if let Some(request) = complete_request(&bytes) {
            shared.observations().add_rejected(&request);
            break;
        }
    }
    let _ = client.write_all(BUSY).await;
    let _ = client.shutdown().await;
}

async fn connect(targets: &[SocketAddr]) -> Option<TcpStream> {
    for target in targets {
        if let Ok(Ok(server)) = timeout(Duration::from_secs(2), TcpStream::connect(target)).await {
            return Some(server);
        }
    }
    None
}

async fn forward(client: TcpStream, shared: Arc<Shared>) {
    let mut interruption = shared.interruption.subscribe();
    let Some(server) = connect(&shared.targets).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let last_charge = LastCharge::default();
    let mut mode = shared.mode.subscribe();
    let closes_connections = |mode: &Mode| [Mode::Cut, Mode::Refuse, Mode::TooManyRequests].contains(mode);
    let cut = async { mode.wait_for(closes_connections).await.is_ok() };
    // Ending either direction closes the connection: both halves are dropped.
    tokio::select! {
        () = forward_requests(&mut from_client, &mut to_server, &shared, &last_charge) => return,
        () = forward_responses(&mut from_server, &mut to_client, &shared, &last_charge) => return,
        _ = cut => return,
        _ = interruption.changed() => {}
    }
    let interruption = *interruption.borrow();
    match interruption {
        Interruption::Close => {}
        Interruption::Stall => pending().await,
    }
}

async fn forward_requests(
    from: &mut OwnedReadHalf,
    to: &mut OwnedWriteHalf,
    shared: &Shared,
    last_charge: &LastCharge,
) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        let bytes = &buffer[..count];
        shared.observations().add_sent(bytes, last_charge);
        if to.write_all(bytes).await.is_err() {
            return;
        }
    }
}

async fn forward_responses(
    from: &mut OwnedReadHalf,
    to: &mut OwnedWriteHalf,
    shared: &Shared,
    last_charge: &LastCharge,
) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        let mode = *shared.mode.borrow();
        if mode != Mode::Pass {
            shared.observations().add_lost(last_charge);
        }
        if !forward_response(to, &buffer[..count], mode).await {
            return;
        }
    }
}

/// Forwards a part of a response according to the mode. Returns whether the connection continues.
async fn forward_response(to: &mut OwnedWriteHalf, bytes: &[u8], mode: Mode) -> bool {
    match mode {
        Mode::Pass => to.write_all(bytes).await.is_ok(),
        Mode::Cut | Mode::Lose | Mode::Refuse | Mode::TooManyRequests => false,
        Mode::Delay(time) => {
            sleep(time).await;
            to.write_all(bytes).await.is_ok()
        }
        Mode::Drip => {
            for byte in bytes {
                sleep(Duration::from_millis(60)).await;
                if to.write_all(&[*byte]).await.is_err() {
                    return false;
                }
            }
            true
        }
        Mode::Fail => {
            let _ = to.write_all(FAILURE).await;
            let _ = to.shutdown().await;
            false
        }
    }
}

//! A proxy of ours on the wire, which can cut, delay, lose answers, drip, and answer 5xx in place of the real answer.

use std::{
    collections::BTreeSet,
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

const FAILURE: &[u8] = b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
const BUSY: &[u8] = b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
const REFERENCE: &str = "reference_id=";
const USERNAME: &str = "username=";
/// What only asks how things stand.
const REPORT: &str = "/apis/report.php";
/// Connections that may wait to be taken.
const BACKLOG: u32 = 1024;

/// What is done to what passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Pass,
    /// Connections are closed, and no new one is taken.
    Cut,
    /// Each answer comes so much later.
    Delay(Duration),
    /// Answers are read and thrown away.
    Lose,
    /// Answers come byte by byte.
    Drip,
    /// The answer is read, and another told.
    Fail,
    /// Nobody listens: connections are refused.
    Refuse,
    /// Each request is answered 429 and goes no further.
    TurnAway,
}

#[derive(Debug, Default)]
struct Noted {
    watched: Vec<String>,
    seen: BTreeSet<String>,
    lost: BTreeSet<String>,
    turned_away: Vec<(Instant, String)>,
}

#[derive(Debug)]
struct Shared {
    targets: Vec<SocketAddr>,
    mode: watch::Sender<Mode>,
    noted: Mutex<Noted>,
}

impl Shared {
    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A listening proxy; it ends when it is dropped.
#[derive(Debug)]
pub(super) struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    _server: JoinSet<()>,
}

impl Proxy {
    /// In front of these, of which the first that takes a connection gets it.
    pub(super) async fn start(ports: &[u16]) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", crate::ports::free()?)).await?;
        let port = listener.local_addr()?.port();
        let targets = ports.iter().map(|port| SocketAddr::from(([127, 0, 0, 1], *port))).collect();
        let shared = Arc::new(Shared { targets, mode: watch::Sender::new(Mode::Pass), noted: Mutex::default() });
        let mut server = JoinSet::new();
        server.spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self { port, shared, _server: server })
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn set(&self, mode: Mode) {
        self.shared.mode.send_replace(mode);
    }

    /// From now on notes which of these words pass towards the server.
    pub(super) fn watch(&self, words: Vec<String>) {
        let mut noted = self.shared.noted();
        noted.watched = words;
        noted.seen.clear();
    }

    /// Which of the watched words have passed.
    pub(super) fn seen(&self) -> BTreeSet<String> {
        self.shared.noted().seen.clone()
    }

    /// By whom requests that change something were sent since then, and turned away.
    pub(super) fn turned_away(&self, since: Instant) -> Vec<String> {
        let noted = self.shared.noted();
        noted.turned_away.iter().filter(|(at, _)| *at >= since).map(|(_, name)| name.clone()).collect()
    }

    /// The references of requests whose answers were lost, delayed, dripped or replaced.
    pub(super) fn lost(&self) -> BTreeSet<String> {
        self.shared.noted().lost.clone()
    }
}

/// The reference of the charge that a connection asked for last; none if it asked for something else.
type Last = Mutex<Option<String>>;

/// What charges at the gateway.
const CHARGES: [&str; 2] = ["/apis/sale.php", "/apis/authorize.php"];

async fn accept(mut listener: TcpListener, shared: Arc<Shared>) {
    let Ok(place) = listener.local_addr() else { return };
    let mut connections = JoinSet::new();
    let mut mode = shared.mode.subscribe();
    loop {
        let refuses = async { mode.wait_for(|mode| *mode == Mode::Refuse).await.is_ok() };
        let accepted = tokio::select! {
            _ = refuses => None,
            accepted = listener.accept() => Some(accepted.ok()),
        };
        if let Some(accepted) = accepted {
            take(accepted, &shared, &mut connections).await;
        } else {
            drop(listener);
            // It is bound and does not listen: connections are refused, and nobody else gets the port.
            let Some(closed) = bound(place).await else { return };
            let ended = async { mode.wait_for(|mode| *mode != Mode::Refuse).await.is_ok() };
            ended.await;
            let Ok(opened) = closed.listen(BACKLOG) else { return };
            listener = opened;
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn take(accepted: Option<(TcpStream, SocketAddr)>, shared: &Arc<Shared>, connections: &mut JoinSet<()>) {
    let mode = *shared.mode.borrow();
    match (accepted, mode) {
        (None, _) => sleep(Duration::from_millis(10)).await,
        (Some(_), Mode::Cut | Mode::Refuse) => {}
        (Some((client, _)), Mode::TurnAway) => drop(connections.spawn(turn_away(client, Arc::clone(shared)))),
        (Some((client, _)), Mode::Pass | Mode::Delay(_) | Mode::Lose | Mode::Drip | Mode::Fail) => {
            connections.spawn(carry(client, Arc::clone(shared)));
        }
    }
}

/// A socket at this place, as soon as there is room for it.
async fn bound(place: SocketAddr) -> Option<TcpSocket> {
    for _ in 0..500 {
        let socket = TcpSocket::new_v4().ok()?;
        let _ = socket.set_reuseaddr(true);
        if socket.bind(place).is_ok() {
            return Some(socket);
        }
        sleep(Duration::from_millis(10)).await;
    }
    None
}

/// Reads a request and answers that it was not looked at. What changes something is noted with the name of its account.
async fn turn_away(mut client: TcpStream, shared: Arc<Shared>) {
    let (mut request, mut buffer) = (Vec::new(), vec![0; 16 * 1024]);
    while let Ok(Ok(count @ 1..)) = timeout(Duration::from_secs(2), client.read(&mut buffer)).await {
        request.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(&request).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
        });
        if body.len() < length.unwrap_or(0) {
            continue;
        }
        if !head.lines().next().unwrap_or_default().contains(REPORT) {
            let name = body.split('&').find_map(|field| field.strip_prefix(USERNAME)).unwrap_or_default();
            shared.noted().turned_away.push((Instant::now(), name.to_owned()));
        }
        break;
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

async fn carry(client: TcpStream, shared: Arc<Shared>) {
    let Some(server) = connect(&shared.targets).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let last = Last::default();
    let mut mode = shared.mode.subscribe();
    let ends = |mode: &Mode| [Mode::Cut, Mode::Refuse, Mode::TurnAway].contains(mode);
    let cut = async { mode.wait_for(ends).await.is_ok() };
    // Whichever ends first ends the connection: both halves are dropped.
    tokio::select! {
        () = requests(from_client, to_server, &shared, &last) => {}
        () = answers(from_server, to_client, &shared, &last) => {}
        _ = cut => {}
    }
}

async fn requests(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, shared: &Shared, last: &Last) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        let bytes = &buffer[..count];
        note(bytes, shared, last);
        if to.write_all(bytes).await.is_err() {
            return;
        }
    }
}

fn note(bytes: &[u8], shared: &Shared, last: &Last) {
    let contains = |word: &str| bytes.windows(word.len()).any(|window| window == word.as_bytes());
    let mut noted = shared.noted();
    let found: Vec<String> = noted.watched.iter().filter(|word| contains(word)).cloned().collect();
    noted.seen.extend(found);
    let text = String::from_utf8_lossy(bytes);
    let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
    if text.starts_with("POST /") || text.starts_with("GET /") {
        *last = CHARGES.iter().any(|path| text.contains(path)).then(String::new);
    }
    if let (Some(at), Some(reference)) = (text.find(REFERENCE), last.as_mut()) {
        text[at + REFERENCE.len()..].split('&').next().unwrap_or_default().trim().clone_into(reference);
    }
}

async fn answers(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, shared: &Shared, last: &Last) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        let mode = *shared.mode.borrow();
        if mode != Mode::Pass {
            let charged = last.lock().unwrap_or_else(PoisonError::into_inner).clone();
            shared.noted().lost.extend(charged);
        }
        if !tell(&mut to, &buffer[..count], mode).await {
            return;
        }
    }
}

/// Whether the connection goes on.
async fn tell(to: &mut OwnedWriteHalf, bytes: &[u8], mode: Mode) -> bool {
    match mode {
        Mode::Pass => to.write_all(bytes).await.is_ok(),
        Mode::Cut | Mode::Lose | Mode::Refuse | Mode::TurnAway => false,
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

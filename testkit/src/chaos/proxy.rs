//! A proxy of ours on the wire, which can cut, delay, lose answers, drip, and answer 5xx in place of the real answer.

use std::{
    collections::BTreeSet,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::Result;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    task::JoinSet,
    time::{sleep, timeout},
};

const FAILURE: &[u8] = b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
const REFERENCE: &str = "reference_id=";

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
}

#[derive(Debug, Default)]
struct Noted {
    watched: Vec<String>,
    seen: BTreeSet<String>,
    lost: BTreeSet<String>,
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

    /// The references of requests whose answers were lost, delayed, dripped or replaced.
    pub(super) fn lost(&self) -> BTreeSet<String> {
        self.shared.noted().lost.clone()
    }
}

/// The reference of the charge that a connection asked for last; none if it asked for something else.
type Last = Mutex<Option<String>>;

/// What charges at the gateway.
const CHARGES: [&str; 2] = ["/apis/sale.php", "/apis/authorize.php"];

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((client, _)) if *shared.mode.borrow() != Mode::Cut => {
                connections.spawn(carry(client, Arc::clone(&shared)));
            }
            Ok(_) => {}
            Err(_) => sleep(Duration::from_millis(10)).await,
        }
        while connections.try_join_next().is_some() {}
    }
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
    let cut = async { mode.wait_for(|mode| *mode == Mode::Cut).await.is_ok() };
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
        Mode::Cut | Mode::Lose => false,
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

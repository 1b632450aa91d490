//! A merchant's server that hears of events and does with each request what its test says, the worst included. By hand, on
//! TCP, since no decent server library would behave like this.

use std::{
    collections::{BTreeMap, HashMap},
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep},
};

use super::eventually;

/// Bytes of the body that nobody should read to its end.
pub(crate) const FLOOD: u64 = 200 * 1024 * 1024;

/// A request, whole, as it came.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) path: String,
    /// Which one on its path, from 0.
    pub(crate) nth: usize,
    /// By names in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
    /// When all of it was there.
    pub(crate) at: Instant,
}

impl Request {
    /// A header; none of ours may be missing.
    #[track_caller]
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).unwrap_or_else(|| panic!("{name} is not among {:?}", self.headers))
    }

    /// The event that it tells of.
    #[track_caller]
    pub(crate) fn event(&self) -> Value {
        serde_json::from_slice(&self.body).expect("the body of a delivery is JSON")
    }
}

/// What becomes of a request.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// This answer, on a connection that stays.
    Answer { status: u16, headers: Vec<(&'static str, String)>, body: String },
    /// The reply after a while.
    Late(Duration, Box<Reply>),
    /// The reply once the test has said [`Receiver::release`].
    Held(Box<Reply>),
    /// 200, and the connection is closed without a word, though it was to stay.
    Close,
    /// Nothing, for ever.
    Silence,
    /// 200, and a byte of the body each second, for ever.
    Drip,
    /// 200, and [`FLOOD`] bytes.
    Flood,
    /// The connection is reset.
    Reset,
}

impl Reply {
    /// 200.
    pub(crate) fn ok() -> Self {
        Self::status(200)
    }

    /// An answer with this status.
    pub(crate) fn status(status: u16) -> Self {
        Self::Answer { status, headers: Vec::new(), body: format!("answered {status}") }
    }

    /// An answer with this status and header.
    pub(crate) fn with_header(status: u16, name: &'static str, value: impl ToString) -> Self {
        Self::Answer { status, headers: vec![(name, value.to_string())], body: String::new() }
    }

    /// It after so many milliseconds.
    pub(crate) fn after(self, milliseconds: u64) -> Self {
        Self::Late(Duration::from_millis(milliseconds), Box::new(self))
    }

    /// It at the test's word.
    pub(crate) fn held(self) -> Self {
        Self::Held(Box::new(self))
    }
}

/// What was seen so far.
#[derive(Default)]
struct Diary {
    connections: usize,
    requests: Vec<Request>,
    on_path: HashMap<String, usize>,
    /// Bytes of floods that were taken before the connection ended, one number for each.
    floods: Vec<u64>,
}

struct Shared {
    diary: Mutex<Diary>,
    reply: Box<dyn Fn(&Request) -> Reply + Send + Sync>,
    released: watch::Sender<bool>,
}

impl Shared {
    fn diary(&self) -> MutexGuard<'_, Diary> {
        self.diary.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A server on loopback, until it is dropped.
pub(crate) struct Receiver {
    url: String,
    shared: Arc<Shared>,
    _server: JoinSet<()>,
}

impl Receiver {
    /// Begins to serve; the test says what becomes of each request.
    pub(crate) async fn start(reply: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let shared =
            Arc::new(Shared { diary: Mutex::default(), reply: Box::new(reply), released: watch::Sender::new(false) });
        let mut server = JoinSet::new();
        server.spawn({
            let shared = Arc::clone(&shared);
            async move {
                let mut connections = JoinSet::new();
                loop {
                    match listener.accept().await {
                        Ok((stream, _)) => {
                            shared.diary().connections += 1;
                            let shared = Arc::clone(&shared);
                            connections.spawn(async move {
                                // Whoever hung up has nothing more to say.
                                let _ = serve(stream, &shared).await;
                            });
                        }
                        Err(_) => sleep(Duration::from_millis(10)).await,
                    }
                    while connections.try_join_next().is_some() {}
                }
            }
        });
        Ok(Self { url, shared, _server: server })
    }

    /// `http://127.0.0.1:<port><path>`
    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    /// Lets go of what is held, now and later.
    pub(crate) fn release(&self) {
        self.shared.released.send_replace(true);
    }

    /// Holds what is to be held once more, after [`Receiver::release`].
    pub(crate) fn hold(&self) {
        self.shared.released.send_replace(false);
    }

    /// How many connections were made to it.
    pub(crate) fn connections(&self) -> usize {
        self.shared.diary().connections
    }

    /// How much was taken of each flood that has ended.
    pub(crate) fn floods(&self) -> Vec<u64> {
        self.shared.diary().floods.clone()
    }

    /// The requests on this path so far, in the order in which they came.
    pub(crate) fn heard(&self, path: &str) -> Vec<Request> {
        self.shared.diary().requests.iter().filter(|request| request.path == path).cloned().collect()
    }

    /// How many there were on this path.
    pub(crate) fn count(&self, path: &str) -> usize {
        self.shared.diary().on_path.get(path).copied().unwrap_or(0)
    }

    /// Every request so far.
    pub(crate) fn all(&self) -> Vec<Request> {
        self.shared.diary().requests.clone()
    }

    /// Waits until at least so many have come on this path, and answers them.
    pub(crate) async fn hears(&self, path: &str, count: usize) -> Result<Vec<Request>> {
        let looked = async || Ok((self.count(path) >= count).then(|| self.heard(path)));
        let heard = eventually(path, looked).await;
        heard.with_context(|| format!("{} requests on {path} instead of {count}", self.count(path)))
    }
}

async fn serve(mut stream: TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::new();
    while let Some(request) = read(&mut stream, &mut buffer, shared).await? {
        if !answer(&mut stream, (shared.reply)(&request), shared).await? {
            break;
        }
    }
    Ok(())
}

/// The next request, noted; none if the sender is done.
async fn read(stream: &mut TcpStream, buffer: &mut Vec<u8>, shared: &Shared) -> io::Result<Option<Request>> {
    loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
            let mut lines = head.split("\r\n");
            let path = lines.next().and_then(|line| line.split(' ').nth(1)).unwrap_or_default().to_owned();
            let headers: BTreeMap<_, _> = lines
                .filter_map(|line| line.split_once(':'))
                .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
                .collect();
            let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
            let whole = end + 4 + length;
            if buffer.len() >= whole {
                let body = buffer[end + 4..whole].to_vec();
                buffer.drain(..whole);
                let mut diary = shared.diary();
                let on_path = diary.on_path.entry(path.clone()).or_default();
                let nth = *on_path;
                *on_path += 1;
                let request = Request { path, nth, headers, body, at: Instant::now() };
                diary.requests.push(request.clone());
                return Ok(Some(request));
            }
        }
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
}

/// Does what is to be done; answers whether the connection goes on.
async fn answer(stream: &mut TcpStream, reply: Reply, shared: &Shared) -> io::Result<bool> {
    match reply {
        Reply::Answer { status, headers, body } => {
            let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
            let length = body.len();
            let answer = format!("HTTP/1.1 {status} Said\r\n{headers}content-length: {length}\r\n\r\n{body}");
            stream.write_all(answer.as_bytes()).await?;
            Ok(true)
        }
        Reply::Late(wait, reply) => {
            sleep(wait).await;
            Box::pin(answer(stream, *reply, shared)).await
        }
        Reply::Held(reply) => {
            // The sender of the word lives as long as the server.
            let _ = shared.released.subscribe().wait_for(|released| *released).await;
            Box::pin(answer(stream, *reply, shared)).await
        }
        Reply::Close => {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await?;
            Ok(false)
        }
        Reply::Silence => std::future::pending().await,
        Reply::Drip => {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n").await?;
            loop {
                stream.write_all(b"x").await?;
                sleep(Duration::from_secs(1)).await;
            }
        }
        Reply::Flood => {
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {FLOOD}\r\n\r\n");
            stream.write_all(head.as_bytes()).await?;
            let (chunk, mut taken) = ([b'x'; 64 * 1024], 0);
            while taken < FLOOD && stream.write_all(&chunk).await.is_ok() {
                taken += chunk.len() as u64;
            }
            shared.diary().floods.push(taken);
            Ok(false)
        }
        Reply::Reset => {
            stream.set_zero_linger()?;
            Ok(false)
        }
    }
}

//! A merchant's webhook receiver whose test decides how each request is handled, however badly. It is written on plain
//! TCP, because no server library misbehaves like this.

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

/// Size in bytes of a response body that no client should read to its end.
pub(crate) const FLOOD: u64 = 200 * 1024 * 1024;

/// A complete request as received.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) path: String,
    /// Its index among the requests on its path, from 0.
    pub(crate) nth: usize,
    /// Keyed by lower-case name.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
    /// When it was complete.
    pub(crate) at: Instant,
}

impl Request {
    /// A header that must be present.
    #[track_caller]
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).unwrap_or_else(|| panic!("no {name} in {:?}", self.headers))
    }

    /// The event in the body.
    #[track_caller]
    pub(crate) fn event(&self) -> Value {
        serde_json::from_slice(&self.body).expect("the body of a delivery is JSON")
    }
}

/// How a request is handled.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// This response, on a connection that stays open.
    Response { status: u16, headers: Vec<(&'static str, String)>, body: String },
    /// The reply after a delay.
    Delayed(Duration, Box<Reply>),
    /// The reply after the test has called [`Receiver::release`].
    Held(Box<Reply>),
    /// 200, and the connection is closed without `Connection: close`.
    Close,
    /// No response, ever.
    Silence,
    /// 200, and a byte of the body each second, without end.
    Drip,
    /// 200, and a body of [`FLOOD`] bytes.
    Flood,
    /// The connection is reset.
    Reset,
}

impl Reply {
    /// 200.
    pub(crate) fn ok() -> Self {
        Self::status(200)
    }

    /// A response with this status.
    pub(crate) fn status(status: u16) -> Self {
        Self::Response { status, headers: Vec::new(), body: format!("answered {status}") }
    }

    /// A response with this status and header.
    pub(crate) fn with_header(status: u16, name: &'static str, value: impl ToString) -> Self {
        Self::Response { status, headers: vec![(name, value.to_string())], body: String::new() }
    }

    /// This reply after a delay in milliseconds.
    pub(crate) fn after(self, milliseconds: u64) -> Self {
        Self::Delayed(Duration::from_millis(milliseconds), Box::new(self))
    }

    /// This reply after [`Receiver::release`].
    pub(crate) fn held(self) -> Self {
        Self::Held(Box::new(self))
    }
}

/// What the receiver has recorded so far.
#[derive(Default)]
struct Recorded {
    connections: usize,
    requests: Vec<Request>,
    on_path: HashMap<String, usize>,
    /// Bytes sent of each flood until its connection ended.
    floods: Vec<u64>,
}

struct Shared {
    recorded: Mutex<Recorded>,
    reply: Box<dyn Fn(&Request) -> Reply + Send + Sync>,
    released: watch::Sender<bool>,
}

impl Shared {
    fn recorded(&self) -> MutexGuard<'_, Recorded> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A server on loopback. It stops when it is dropped.
pub(crate) struct Receiver {
    url: String,
    shared: Arc<Shared>,
    _server: JoinSet<()>,
}

impl Receiver {
    /// Starts to serve. `reply` decides how each request is handled.
    pub(crate) async fn start(reply: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let shared = Arc::new(Shared {
            recorded: Mutex::default(),
            reply: Box::new(reply),
            released: watch::Sender::new(false),
        });
        let mut server = JoinSet::new();
        server.spawn({
            let shared = Arc::clone(&shared);
            async move {
                let mut connections = JoinSet::new();
                loop {
                    match listener.accept().await {
                        Ok((stream, _)) => {
                            shared.recorded().connections += 1;
                            let shared = Arc::clone(&shared);
                            connections.spawn(async move {
                                // The client may close the connection at any time.
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

    /// Sends held replies, now and from now on.
    pub(crate) fn release(&self) {
        self.shared.released.send_replace(true);
    }

    /// Undoes [`Receiver::release`]: replies are held again.
    pub(crate) fn hold(&self) {
        self.shared.released.send_replace(false);
    }

    /// The number of connections accepted so far.
    pub(crate) fn connections(&self) -> usize {
        self.shared.recorded().connections
    }

    /// Bytes sent of each flood that has ended.
    pub(crate) fn floods(&self) -> Vec<u64> {
        self.shared.recorded().floods.clone()
    }

    /// The requests on this path so far, in order of arrival.
    pub(crate) fn received(&self, path: &str) -> Vec<Request> {
        self.shared.recorded().requests.iter().filter(|request| request.path == path).cloned().collect()
    }

    /// The number of requests on this path so far.
    pub(crate) fn count(&self, path: &str) -> usize {
        self.shared.recorded().on_path.get(path).copied().unwrap_or(0)
    }

    /// Every request so far.
    pub(crate) fn all(&self) -> Vec<Request> {
        self.shared.recorded().requests.clone()
    }

    /// Waits until at least `count` requests have arrived on this path and returns them.
    pub(crate) async fn wait_for_requests(&self, path: &str, count: usize) -> Result<Vec<Request>> {
        let arrived = async || Ok((self.count(path) >= count).then(|| self.received(path)));
        let requests = eventually(path, arrived).await;
        requests.with_context(|| format!("{} requests on {path} instead of {count}", self.count(path)))
    }
}

async fn serve(mut stream: TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::new();
    while let Some(request) = read(&mut stream, &mut buffer, shared).await? {
        if !respond(&mut stream, (shared.reply)(&request), shared).await? {
            break;
        }
    }
    Ok(())
}

/// Reads and records the next request; `None` if the client has closed the connection.
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
            let total = end + 4 + length;
            if buffer.len() >= total {
                let body = buffer[end + 4..total].to_vec();
                buffer.drain(..total);
                let mut recorded = shared.recorded();
                let on_path = recorded.on_path.entry(path.clone()).or_default();
                let nth = *on_path;
                *on_path += 1;
                let request = Request { path, nth, headers, body, at: Instant::now() };
                recorded.requests.push(request.clone());
                return Ok(Some(request));
            }
        }
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
}

/// Executes a reply. Returns whether the connection stays open.
async fn respond(stream: &mut TcpStream, reply: Reply, shared: &Shared) -> io::Result<bool> {
    match reply {
        Reply::Response { status, headers, body } => {
            let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
            let length = body.len();
            let response = format!("HTTP/1.1 {status} Reply\r\n{headers}content-length: {length}\r\n\r\n{body}");
            stream.write_all(response.as_bytes()).await?;
            Ok(true)
        }
        Reply::Delayed(delay, reply) => {
            sleep(delay).await;
            Box::pin(respond(stream, *reply, shared)).await
        }
        Reply::Held(reply) => {
            // The sender lives as long as the server.
            let _ = shared.released.subscribe().wait_for(|released| *released).await;
            Box::pin(respond(stream, *reply, shared)).await
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
            let (chunk, mut written) = ([b'x'; 64 * 1024], 0);
            while written < FLOOD && stream.write_all(&chunk).await.is_ok() {
                written += chunk.len() as u64;
            }
            shared.recorded().floods.push(written);
            Ok(false)
        }
        Reply::Reset => {
            stream.set_zero_linger()?;
            Ok(false)
        }
    }
}

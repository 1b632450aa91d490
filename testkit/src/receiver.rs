//! A merchant's webhook receiver, whose user decides how each request is handled, however badly. It is written on plain
//! TCP, because no server library misbehaves like this, and because it must leave the processors to what is measured.

use std::{
    collections::{BTreeMap, HashMap},
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::Result;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep},
};

/// Size in bytes of a response body that no client should read to its end.
pub const FLOOD: u64 = 200 * 1024 * 1024;

/// A complete request as received.
#[derive(Clone, Debug)]
pub struct Request {
    pub path: String,
    /// Its index among the requests on its path, from 0.
    pub nth: usize,
    /// Keyed by lower-case name.
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
    /// When it was complete.
    pub at: Instant,
}

impl Request {
    /// A header that must be present.
    ///
    /// # Panics
    /// When it is missing.
    #[must_use]
    #[track_caller]
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).unwrap_or_else(|| panic!("no {name} in {:?}", self.headers))
    }

    /// The event in the body.
    ///
    /// # Panics
    /// When the body is not JSON.
    #[must_use]
    #[track_caller]
    pub fn event(&self) -> Value {
        serde_json::from_slice(&self.body).expect("the body of a delivery is JSON")
    }
}

/// How a request is handled.
#[derive(Clone, Debug)]
pub enum Reply {
    /// This response, on a connection that stays open.
    Response { status: u16, headers: Vec<(&'static str, String)>, body: String },
    /// The reply after a delay.
    Delayed(Duration, Box<Reply>),
    /// The reply after [`Receiver::release`] has been called.
    Held(Box<Reply>),
    /// 200, and the connection is closed without `Connection: close`.
    Close,
    /// No response, ever.
    Silence,
    /// The connection is closed without a response.
    Disconnect,
    /// 200, and a byte of the body each second, without end.
    Drip,
    /// 200, and a body of [`FLOOD`] bytes.
    Flood,
    /// The connection is reset.
    Reset,
}

impl Reply {
    /// 200.
    #[must_use]
    pub fn ok() -> Self {
        Self::status(200)
    }

    /// A response with this status.
    #[must_use]
    pub fn status(status: u16) -> Self {
        Self::Response { status, headers: Vec::new(), body: format!("status {status}") }
    }

    /// A response with this status and header.
    #[must_use]
    pub fn with_header(status: u16, name: &'static str, value: impl ToString) -> Self {
        Self::Response { status, headers: vec![(name, value.to_string())], body: String::new() }
    }

    /// This reply after a delay in milliseconds.
    #[must_use]
    pub fn after(self, milliseconds: u64) -> Self {
        Self::Delayed(Duration::from_millis(milliseconds), Box::new(self))
    }

    /// This reply after [`Receiver::release`].
    #[must_use]
    pub fn held(self) -> Self {
        Self::Held(Box::new(self))
    }
}

#[derive(Default)]
struct Counts {
    connections: usize,
    on_path: HashMap<String, usize>,
    /// Bytes sent of each flood until its connection ended.
    floods: Vec<u64>,
}

struct Shared {
    counts: Mutex<Counts>,
    reply: Box<dyn Fn(&Request) -> Reply + Send + Sync>,
    released: watch::Sender<bool>,
}

impl Shared {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A server, on loopback unless it is started elsewhere. It stops when it is dropped.
pub struct Receiver {
    url: String,
    shared: Arc<Shared>,
    _server: JoinSet<()>,
}

impl Receiver {
    /// Starts to serve. `reply` decides how each request is handled.
    ///
    /// # Errors
    /// When there is no free port.
    pub async fn start(reply: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Result<Self> {
        Self::start_at("127.0.0.1", reply).await
    }

    /// As [`Receiver::start`], at another address of this machine.
    ///
    /// # Errors
    /// When there is no free port.
    pub(crate) async fn start_at(
        address: &str,
        reply: impl Fn(&Request) -> Reply + Send + Sync + 'static,
    ) -> Result<Self> {
        let listener = TcpListener::bind((address, 0)).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let shared =
            Arc::new(Shared { counts: Mutex::default(), reply: Box::new(reply), released: watch::Sender::new(false) });
        let mut server = JoinSet::new();
        server.spawn({
            let shared = Arc::clone(&shared);
            async move {
                let mut connections = JoinSet::new();
                loop {
                    match listener.accept().await {
                        Ok((stream, _)) => {
                            shared.counts().connections += 1;
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

    /// `http://<address>:<port><path>`
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    /// Sends held replies, now and from now on.
    pub fn release(&self) {
        self.shared.released.send_replace(true);
    }

    /// The number of connections accepted so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.counts().connections
    }

    /// Bytes sent of each flood that has ended.
    #[must_use]
    pub fn floods(&self) -> Vec<u64> {
        self.shared.counts().floods.clone()
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

/// Reads the next request; `None` if the client has closed the connection.
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
                let mut counts = shared.counts();
                let count = counts.on_path.entry(path.clone()).or_default();
                let nth = *count;
                *count += 1;
                return Ok(Some(Request { path, nth, headers, body, at: Instant::now() }));
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
        Reply::Disconnect => Ok(false),
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
            shared.counts().floods.push(written);
            Ok(false)
        }
        Reply::Reset => {
            stream.set_zero_linger()?;
            Ok(false)
        }
    }
}

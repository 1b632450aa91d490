//! A webhook receiver that answers each POST with 200 and passes its body on. Written by hand, like the load, so that
//! the sender is what is measured.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::load::complete_message;

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// Called with each message and the time at which it was complete.
type OnMessage = Arc<dyn Fn(&str, Instant) + Send + Sync>;

/// A server that stops when dropped.
pub(super) struct Receiver {
    /// `http://127.0.0.1:<port>`
    pub(super) url: String,
    _server: JoinSet<()>,
}

impl Receiver {
    /// Starts the server; `on_message` gets each message and the time at which it was complete.
    pub(super) async fn start(on_message: impl Fn(&str, Instant) + Send + Sync + 'static) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let on_message: OnMessage = Arc::new(on_message);
        let mut server = JoinSet::new();
        server.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => drop(connections.spawn(serve(stream, Arc::clone(&on_message)))),
                    Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
                }
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self { url, _server: server })
    }
}

async fn serve(mut stream: TcpStream, on_message: OnMessage) {
    let _ = stream.set_nodelay(true);
    let mut buffer = Vec::with_capacity(4096);
    loop {
        match stream.read_buf(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        match complete_message(&buffer) {
            Ok(None) => continue,
            Ok(Some(message)) => on_message(message, Instant::now()),
            Err(_) => return,
        }
        buffer.clear();
        if stream.write_all(OK).await.is_err() {
            return;
        }
    }
}

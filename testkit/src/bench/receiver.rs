//! Where webhooks arrive: a server that answers each POST with 200 and tells of its body. By hand, as the load is, so that
//! what is measured is the sender.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::load::whole;

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// Told each body, and when all of it was there.
type Heard = Arc<dyn Fn(&str, Instant) + Send + Sync>;

/// A server that ends when it is dropped.
pub(super) struct Receiver {
    /// `http://127.0.0.1:<port>`
    pub(super) url: String,
    _server: JoinSet<()>,
}

impl Receiver {
    /// Begins to serve; `heard` is told each body, and when all of it was there.
    pub(super) async fn start(heard: impl Fn(&str, Instant) + Send + Sync + 'static) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let heard: Heard = Arc::new(heard);
        let mut server = JoinSet::new();
        server.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => drop(connections.spawn(serve(stream, Arc::clone(&heard)))),
                    Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
                }
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self { url, _server: server })
    }
}

async fn serve(mut stream: TcpStream, heard: Heard) {
    let _ = stream.set_nodelay(true);
    let mut buffer = Vec::with_capacity(4096);
    loop {
        match stream.read_buf(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        match whole(&buffer) {
            Ok(None) => continue,
            Ok(Some(message)) => heard(message, Instant::now()),
            Err(_) => return,
        }
        buffer.clear();
        if stream.write_all(OK).await.is_err() {
            return;
        }
    }
}

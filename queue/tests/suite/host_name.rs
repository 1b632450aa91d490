//! A forwarder between clients and Redis.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use testkit::Redis;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A forwarder that stands for a host name: new connections go to the current target, existing ones stay where they
/// are.
pub(crate) struct HostName {
    pub(crate) target: Arc<watch::Sender<u16>>,
    port: u16,
    connections: Arc<AtomicUsize>,
}

impl HostName {
    pub(crate) async fn of(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let name = Self {
            target: Arc::new(watch::Sender::new(port)),
            port: listener.local_addr().unwrap().port(),
            connections: Arc::default(),
        };
        let (target, connections) = (Arc::clone(&name.target), Arc::clone(&name.connections));
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                connections.fetch_add(1, Ordering::Relaxed);
                let port = *target.borrow();
                tokio::spawn(async move {
                    let mut server = TcpStream::connect(("127.0.0.1", port)).await?;
                    copy_bidirectional(&mut client, &mut server).await
                });
            }
        });
        name
    }

    /// The server's URL with this host name.
    pub(crate) fn url(&self, server: &Redis) -> String {
        server.url().replace(&format!(":{}/", server.port()), &format!(":{}/", self.port))
    }

    /// The number of connections opened so far.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

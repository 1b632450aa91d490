//! A proxy in front of Postgres that simulates network failures.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use testkit::{Builder, Cluster, Database};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// How the existing connections are treated.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Forward,
    /// They stay open, but no more bytes pass.
    Silent,
    /// They are closed on both sides.
    Cut,
}

/// A proxy in front of the Postgres server, with a database of its own.
pub(super) struct Network {
    pub(super) database: Database,
    address: SocketAddr,
    mode: watch::Sender<Mode>,
    _forwarding: JoinSet<()>,
}

impl Network {
    pub(super) async fn new() -> Result<Self> {
        let database = Database::create().await?;
        let server = reqwest::Url::parse(database.url())?.socket_addrs(|| Some(5432))?[0];
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let mode = watch::Sender::new(Mode::Forward);
        let (modes, mut forwarding) = (mode.clone(), JoinSet::new());
        forwarding.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut client, _)) = listener.accept().await {
                // Only later changes of the mode apply to this connection.
                let mut mode = modes.subscribe();
                mode.mark_unchanged();
                connections.spawn(async move {
                    let Ok(mut server) = TcpStream::connect(server).await else { return };
                    tokio::select! {
                        _ = copy_bidirectional(&mut client, &mut server) => return,
                        _ = mode.changed() => {}
                    }
                    if *mode.borrow() == Mode::Silent {
                        std::future::pending::<()>().await;
                    }
                });
            }
        });
        Ok(Self { database, address, mode, _forwarding: forwarding })
    }

    /// A cluster whose processes reach their database through this proxy.
    pub(super) fn cluster(&self) -> Result<Builder> {
        let mut url = reqwest::Url::parse(self.database.url())?;
        url.set_port(Some(self.address.port())).ok().context("a port")?;
        url.set_host(Some("127.0.0.1"))?;
        Ok(Cluster::builder().env("DATABASE_URL", url.as_str()))
    }

    /// Existing connections stay open, but no more bytes pass.
    pub(super) fn fall_silent(&self) {
        self.mode.send_replace(Mode::Silent);
    }

    /// Closes existing connections.
    pub(super) fn cut(&self) {
        self.mode.send_replace(Mode::Cut);
    }
}

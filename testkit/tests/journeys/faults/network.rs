//! A network before Postgres that fails in its own ways.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use testkit::{Builder, Cluster, Database};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// What has become of the connections that were there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Carried,
    /// They stay open, and nothing passes any more.
    Silent,
    /// They are closed to both sides.
    Cut,
}

/// A network before the Postgres of a database of its own.
pub(super) struct Network {
    pub(super) database: Database,
    address: SocketAddr,
    fate: watch::Sender<Fate>,
    _carrying: JoinSet<()>,
}

impl Network {
    pub(super) async fn new() -> Result<Self> {
        let database = Database::create().await?;
        let server = reqwest::Url::parse(database.url())?.socket_addrs(|| Some(5432))?[0];
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let fate = watch::Sender::new(Fate::Carried);
        let (fates, mut carrying) = (fate.clone(), JoinSet::new());
        carrying.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut client, _)) = listener.accept().await {
                // What befalls the others is no matter of one that comes later.
                let mut fate = fates.subscribe();
                fate.mark_unchanged();
                connections.spawn(async move {
                    let Ok(mut server) = TcpStream::connect(server).await else { return };
                    tokio::select! {
                        _ = copy_bidirectional(&mut client, &mut server) => return,
                        _ = fate.changed() => {}
                    }
                    if *fate.borrow() == Fate::Silent {
                        std::future::pending::<()>().await;
                    }
                });
            }
        });
        Ok(Self { database, address, fate, _carrying: carrying })
    }

    /// Of processes that reach their database through it.
    pub(super) fn cluster(&self) -> Result<Builder> {
        let mut url = reqwest::Url::parse(self.database.url())?;
        url.set_port(Some(self.address.port())).ok().context("a port")?;
        url.set_host(Some("127.0.0.1"))?;
        Ok(Cluster::builder().env("DATABASE_URL", url.as_str()))
    }

    /// The connections that are there stay open, and nothing passes any more.
    pub(super) fn fall_silent(&self) {
        self.fate.send_replace(Fate::Silent);
    }

    /// The connections that are there are closed.
    pub(super) fn cut(&self) {
        self.fate.send_replace(Fate::Cut);
    }
}

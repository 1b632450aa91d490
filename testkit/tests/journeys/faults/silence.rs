//! A Postgres that is gone without a word, in whose place another one answers.

use std::net::SocketAddr;

use anyhow::Result;
use testkit::{Cluster, Database};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::support::{Merchant, created, eventually};

/// A network before Postgres. A connection that is there when the sender is told `true` stays open, and nothing passes any more.
struct Network {
    address: SocketAddr,
    silence: watch::Sender<bool>,
    _carrying: JoinSet<()>,
}

impl Network {
    async fn to(server: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let silence = watch::Sender::new(false);
        let (silences, mut carrying) = (silence.clone(), JoinSet::new());
        carrying.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut client, _)) = listener.accept().await {
                // One that comes later has another server before it.
                let mut silent = silences.subscribe();
                let old = !*silent.borrow_and_update();
                connections.spawn(async move {
                    let Ok(mut server) = TcpStream::connect(server).await else { return };
                    let falls_silent = async { silent.wait_for(|silent| *silent && old).await.map(drop) };
                    tokio::select! {
                        _ = copy_bidirectional(&mut client, &mut server) => return,
                        _ = falls_silent => {}
                    }
                    std::future::pending::<()>().await;
                });
            }
        });
        Ok(Self { address, silence, _carrying: carrying })
    }
}

#[tokio::test]
async fn whoever_hangs_at_a_server_that_is_gone_without_a_word_ends_and_is_started_again() -> Result<()> {
    let database = Database::create().await?;
    let mut url = reqwest::Url::parse(database.url())?;
    let server = url.socket_addrs(|| Some(5432))?[0];
    let network = Network::to(server).await?;
    url.set_port(Some(network.address.port())).expect("a port");
    url.set_host(Some("127.0.0.1")).expect("a host");
    let builder = Cluster::builder().api(1).worker(1).scheduler(1);
    let mut cluster = builder.env("DATABASE_URL", url.as_str()).start().await?;
    let merchant = Merchant::new(&cluster).await?;
    created(&merchant.pay(100).await?);

    network.silence.send_replace(true);
    for process in cluster.processes() {
        let ended = async || Ok(process.ended()?);
        let status = eventually("the end of a process that hangs", ended).await?;
        assert_eq!(status.code(), Some(1), "{}", process.name());
        process.restart().await?;
    }
    created(&merchant.pay(200).await?);
    Ok(())
}

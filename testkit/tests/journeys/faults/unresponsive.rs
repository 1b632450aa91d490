//! A Postgres that stops responding without closing connections, while new connections reach a healthy one.

use anyhow::Result;

use super::network::Network;
use crate::support::{Merchant, created, eventually};

#[tokio::test]
async fn processes_of_an_unresponsive_database_exit_and_recover() -> Result<()> {
    let network = Network::new().await?;
    let mut cluster = network.cluster()?.api(1).worker(1).scheduler(1).start().await?;
    let merchant = Merchant::new(&cluster).await?;
    created(&merchant.pay(100).await?);

    network.proxy.stall_connections();
    for process in cluster.processes() {
        let exited = async || Ok(process.exit_status()?);
        let status = eventually("a hanging process to exit", exited).await?;
        assert_eq!(status.code(), Some(1), "{}", process.name());
        process.restart().await?;
    }
    created(&merchant.pay(200).await?);
    Ok(())
}

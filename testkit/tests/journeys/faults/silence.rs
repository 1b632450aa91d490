//! A Postgres that is gone without a word, in whose place another one answers.

use anyhow::Result;

use super::network::Network;
use crate::support::{Merchant, created, eventually};

#[tokio::test]
async fn whoever_hangs_at_a_server_that_is_gone_without_a_word_ends_and_is_started_again() -> Result<()> {
    let network = Network::new().await?;
    let mut cluster = network.cluster()?.api(1).worker(1).scheduler(1).start().await?;
    let merchant = Merchant::new(&cluster).await?;
    created(&merchant.pay(100).await?);

    network.fall_silent();
    for process in cluster.processes() {
        let ended = async || Ok(process.ended()?);
        let status = eventually("the end of a process that hangs", ended).await?;
        assert_eq!(status.code(), Some(1), "{}", process.name());
        process.restart().await?;
    }
    created(&merchant.pay(200).await?);
    Ok(())
}

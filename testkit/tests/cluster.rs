//! A cluster as a whole: it comes up, its processes can be hurt and come back, and they end in good order.

use anyhow::Result;
use testkit::{Client, Cluster, Kind};

#[tokio::test]
async fn processes_can_be_killed_paused_restarted_and_ended() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).worker(2).scheduler(1).start().await?;
    let before = cluster.worker(1).pid();
    cluster.worker(1).kill9()?;
    assert!(cluster.worker(1).ended()?.is_some());
    cluster.worker(1).restart().await?;
    assert_ne!(cluster.worker(1).pid(), before);

    cluster.api(0).pause()?;
    cluster.api(0).resume()?;
    let metrics = Client::new(&cluster.metrics_url(Kind::Api, 0))?.get("/healthz").await?;
    assert_eq!(metrics.status, 200);

    cluster.add(Kind::Api).await?;
    assert_ne!(cluster.api_url(0), cluster.api_url(1));
    for process in cluster.processes() {
        let name = process.kind().name();
        assert!(process.terminate().await?.success(), "{name} ends well when asked to");
        assert!(!process.log().is_empty(), "{name} said something");
    }
    Ok(())
}

#[tokio::test]
async fn the_operators_tool_makes_accounts_after_a_crash_of_postgres() -> Result<()> {
    let mut cluster = Cluster::builder().own_postgres().start().await?;
    let postgres = cluster.postgres.as_mut().expect("asked for");
    postgres.kill_immediate()?;
    postgres.restart().await?;
    let account = cluster.account().await?;
    assert!(!account.id.is_empty());
    assert_ne!(account.secret_key, account.publishable_key);
    assert!(cluster.ctl(&["no-such-command"]).await.is_err(), "a failure of ctl is one here");
    Ok(())
}

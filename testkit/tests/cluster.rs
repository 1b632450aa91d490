//! The test cluster itself: it starts, its processes can be killed, paused and restarted, and they shut down cleanly.

use anyhow::Result;
use testkit::{Client, Cluster, ProcessKind};

#[tokio::test]
async fn processes_can_be_killed_paused_restarted_and_terminated() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).worker(2).scheduler(1).start().await?;
    let before = cluster.worker(1).pid();
    cluster.worker(1).kill9()?;
    assert!(cluster.worker(1).exit_status()?.is_some());
    cluster.worker(1).restart().await?;
    assert_ne!(cluster.worker(1).pid(), before);

    cluster.api(0).pause()?;
    cluster.api(0).resume()?;
    let metrics = Client::new(&cluster.metrics_url(ProcessKind::Api, 0))?.get("/healthz").await?;
    assert_eq!(metrics.status, 200);

    cluster.add(ProcessKind::Api).await?;
    assert_ne!(cluster.api_url(0), cluster.api_url(1));
    for process in cluster.processes() {
        let name = process.kind().name();
        assert!(process.terminate().await?.success(), "{name} exits with 0 on SIGTERM");
        assert!(!process.log().is_empty(), "{name} logged nothing");
    }
    Ok(())
}

#[tokio::test]
async fn ctl_creates_accounts_after_a_postgres_crash() -> Result<()> {
    let mut cluster = Cluster::builder().own_postgres().start().await?;
    let postgres = cluster.postgres.as_mut().expect("requested above");
    postgres.kill_immediate()?;
    postgres.restart().await?;
    let account = cluster.account().await?;
    assert!(!account.id.is_empty());
    assert_ne!(account.secret_key, account.publishable_key);
    assert!(cluster.ctl(&["no-such-command"]).await.is_err(), "a failing ctl command is an error");
    Ok(())
}

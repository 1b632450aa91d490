//! A process whose keys do not match the stored data does not start, and names the wrong variable.

use std::time::Duration;

use anyhow::Result;
use testkit::{Cluster, ProcessKind};
use tokio::time::timeout;

use super::{ENCRYPTION, PEPPER, assert_doctor, key, with_keys};
use crate::signing::live;
use crate::support::{Merchant, eventually, ok};

/// Longer than a process needs to become ready.
const STARTUP_TIME: Duration = Duration::from_secs(4);

/// Asserts that a new process exits, names the variable, and does not become ready.
async fn assert_does_not_start(cluster: &mut Cluster, kind: ProcessKind, variable: &str) -> Result<()> {
    let error = cluster.add(kind).await.map(drop).expect_err("it does not start");
    assert!(format!("{error:#}").contains("it exited (exit status: 1)"), "{error:#}");
    let log = cluster.processes().last().expect("it was added").log();
    assert!(log.contains(&format!("environment variable {variable}:")) && log.contains("rotation.md"), "{log}");
    assert!(!log.contains(&key("e")[..16]), "the key is not logged");
    Ok(())
}

/// Asserts that `ctl` fails and names the variable.
async fn assert_ctl_fails(cluster: &Cluster, variable: &str, arguments: &[&str]) -> Result<()> {
    let output = cluster.ctl_output(arguments).await?;
    assert_eq!(output.code, 1, "{output:?}");
    assert!(output.stderr.contains(variable) && !output.stderr.contains(&key("e")[..16]), "{output:?}");
    Ok(())
}

#[tokio::test]
async fn wrong_keys_are_detected_at_startup() -> Result<()> {
    let mut cluster = with_keys("a", "c").api(1).worker(1).start().await?;
    let live = live(&cluster).await?;
    let account = live.account.id.clone();
    let secret = ["keys", "create", "--account", &account, "--kind", "secret"];

    cluster.set_env(ENCRYPTION[0], &key("e"));
    assert_does_not_start(&mut cluster, ProcessKind::Api, ENCRYPTION[0]).await?;
    assert_does_not_start(&mut cluster, ProcessKind::Worker, ENCRYPTION[0]).await?;
    assert_ctl_fails(&cluster, ENCRYPTION[0], &secret).await?;
    assert_ctl_fails(&cluster, ENCRYPTION[0], &["reencrypt"]).await?;
    assert_doctor(&cluster, "keys", "bad", ENCRYPTION[0]).await?;
    // Together with the right old key, an unused new key is the start of a rotation.
    cluster.set_env(ENCRYPTION[1], &key("a"));
    cluster.add(ProcessKind::Api).await?;
    cluster.add(ProcessKind::Worker).await?;
    cluster.set_env(ENCRYPTION[0], &key("a"));
    cluster.set_env(ENCRYPTION[1], "");

    cluster.set_env(PEPPER[0], &key("e"));
    assert_does_not_start(&mut cluster, ProcessKind::Api, PEPPER[0]).await?;
    assert_ctl_fails(&cluster, PEPPER[0], &secret).await?;
    assert_ctl_fails(&cluster, PEPPER[0], &["keys", "rehash"]).await?;
    assert_doctor(&cluster, "keys", "bad", PEPPER[0]).await?;
    // A worker uses no pepper.
    cluster.add(ProcessKind::Worker).await?;

    // After a loss of the keys, KEYS_UNCHECKED allows new keys.
    cluster.set_env(ENCRYPTION[0], &key("e"));
    cluster.set_env("KEYS_UNCHECKED", "true");
    cluster.add(ProcessKind::Api).await?;
    cluster.add(ProcessKind::Worker).await?;
    let made = cluster.ctl(&secret).await?;
    assert!(made["signing_secret"].is_string());
    Ok(())
}

#[tokio::test]
async fn empty_databases_accept_any_keys() -> Result<()> {
    let mut cluster = with_keys("a", "c").api(1).start().await?;
    // Nothing is encrypted or hashed yet.
    cluster.set_env(ENCRYPTION[0], &key("b"));
    cluster.set_env(PEPPER[0], &key("d"));
    cluster.add(ProcessKind::Api).await?;
    let merchant = Merchant::new(&cluster).await?;
    let api = testkit::Client::new(&cluster.api_url(1))?.bearer(&merchant.account.secret_key)?;
    ok(&api.get("/v1/payments").await?);
    Ok(())
}

#[tokio::test]
async fn processes_stay_unready_while_postgres_is_down() -> Result<()> {
    let builder = with_keys("a", "c").own_postgres();
    let mut cluster = builder.api(1).worker(1).start().await?;
    let live = live(&cluster).await?;
    cluster.postgres.as_mut().expect("its own postgres").kill_immediate()?;
    for process in cluster.processes() {
        process.set_env(ENCRYPTION[0], &key("e"));
        let ready = timeout(STARTUP_TIME, process.restart()).await;
        assert!(!matches!(ready, Ok(Ok(()))), "{} is not ready", process.kind().name());
        assert!(process.exit_status()?.is_none(), "the process waits");
    }
    cluster.postgres.as_mut().expect("its own postgres").restart().await?;
    for process in cluster.processes() {
        eventually("the end of a process with a wrong key", async || Ok(process.exit_status()?.map(drop))).await?;
        assert!(process.log().contains(ENCRYPTION[0]), "{}", process.log());
    }
    drop(live);
    Ok(())
}

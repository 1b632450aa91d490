//! A process with keys that fit nothing of what is stored does not start, and says which variable is wrong.

use std::time::Duration;

use anyhow::Result;
use testkit::{Cluster, Kind};
use tokio::time::timeout;

use super::{ENCRYPTION, PEPPER, doctor_says, key, with_keys};
use crate::signing::live;
use crate::support::{Merchant, eventually, ok};

/// In so long most that would become ready have.
const LOOKS_LONG_ENOUGH: Duration = Duration::from_secs(4);

/// It ends, names the variable, and never becomes ready.
async fn does_not_start(cluster: &mut Cluster, kind: Kind, variable: &str) -> Result<()> {
    let refused = cluster.add(kind).await.map(drop).expect_err("it does not start");
    assert!(format!("{refused:#}").contains("it ended (exit status: 1)"), "{refused:#}");
    let said = cluster.processes().last().expect("it was added").log();
    assert!(said.contains(&format!("environment variable {variable}:")) && said.contains("rotation.md"), "{said}");
    assert!(!said.contains(&key("e")[..16]), "the key is not told");
    Ok(())
}

/// What `ctl` complains about when it is to make something with wrong keys.
async fn is_refused(cluster: &Cluster, variable: &str, arguments: &[&str]) -> Result<()> {
    let ended = cluster.ctl_to_its_end(arguments).await?;
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.complaint.contains(variable) && !ended.complaint.contains(&key("e")[..16]), "{ended:?}");
    Ok(())
}

#[tokio::test]
async fn a_wrong_key_is_seen_at_the_start() -> Result<()> {
    let mut cluster = with_keys("a", "c").api(1).worker(1).start().await?;
    let live = live(&cluster).await?;
    let account = live.account.id.clone();
    let secret = ["keys", "create", "--account", &account, "--kind", "secret"];

    cluster.set_env(ENCRYPTION[0], &key("e"));
    does_not_start(&mut cluster, Kind::Api, ENCRYPTION[0]).await?;
    does_not_start(&mut cluster, Kind::Worker, ENCRYPTION[0]).await?;
    is_refused(&cluster, ENCRYPTION[0], &secret).await?;
    is_refused(&cluster, ENCRYPTION[0], &["reencrypt"]).await?;
    doctor_says(&cluster, "keys", "bad", ENCRYPTION[0]).await?;
    // Beside the right one a key that nothing was sealed under is one on its way in.
    cluster.set_env(ENCRYPTION[1], &key("a"));
    cluster.add(Kind::Api).await?;
    cluster.add(Kind::Worker).await?;
    cluster.set_env(ENCRYPTION[0], &key("a"));
    cluster.set_env(ENCRYPTION[1], "");

    cluster.set_env(PEPPER[0], &key("e"));
    does_not_start(&mut cluster, Kind::Api, PEPPER[0]).await?;
    is_refused(&cluster, PEPPER[0], &secret).await?;
    is_refused(&cluster, PEPPER[0], &["keys", "rehash"]).await?;
    doctor_says(&cluster, "keys", "bad", PEPPER[0]).await?;
    // A worker has no pepper.
    cluster.add(Kind::Worker).await?;

    // They were lost: it must be possible to begin anew.
    cluster.set_env(ENCRYPTION[0], &key("e"));
    cluster.set_env("KEYS_UNCHECKED", "true");
    cluster.add(Kind::Api).await?;
    cluster.add(Kind::Worker).await?;
    let made = cluster.ctl(&secret).await?;
    assert!(made["signing_secret"].is_string());
    Ok(())
}

#[tokio::test]
async fn an_empty_database_takes_any_keys_and_one_half_of_them_is_enough() -> Result<()> {
    let mut cluster = with_keys("a", "c").api(1).start().await?;
    // Nothing is sealed yet, and nothing hashed.
    cluster.set_env(ENCRYPTION[0], &key("b"));
    cluster.set_env(PEPPER[0], &key("d"));
    cluster.add(Kind::Api).await?;
    let merchant = Merchant::new(&cluster).await?;
    let api = testkit::Client::new(&cluster.api_url(1))?.bearer(&merchant.account.secret_key)?;
    ok(&api.get("/v1/payments").await?);
    Ok(())
}

#[tokio::test]
async fn while_postgres_is_away_nothing_is_known_and_nothing_is_ready() -> Result<()> {
    let builder = with_keys("a", "c").own_postgres();
    let mut cluster = builder.api(1).worker(1).start().await?;
    let live = live(&cluster).await?;
    cluster.postgres.as_mut().expect("its own").kill_immediate()?;
    for process in cluster.processes() {
        process.set_env(ENCRYPTION[0], &key("e"));
        let ready = timeout(LOOKS_LONG_ENOUGH, process.restart()).await;
        assert!(!matches!(ready, Ok(Ok(()))), "{} is not ready", process.kind().name());
        assert!(process.ended()?.is_none(), "and waits");
    }
    cluster.postgres.as_mut().expect("its own").restart().await?;
    for process in cluster.processes() {
        eventually("the end of a process with a wrong key", async || Ok(process.ended()?.map(drop))).await?;
        assert!(process.log().contains(ENCRYPTION[0]), "{}", process.log());
    }
    drop(live);
    Ok(())
}

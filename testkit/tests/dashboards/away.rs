//! A server that is away is seen in the metrics of those who need it, and so is its return.

use anyhow::{Context, Result};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use testkit::{Client, Cluster, Kind};

use crate::load::eventually;

/// Both kinds of process say at last whether Redis and Postgres answer them.
async fn said(cluster: &Cluster, up: u8) -> Result<()> {
    for kind in [Kind::Worker, Kind::Scheduler] {
        let internal = Client::new(&cluster.metrics_url(kind, 0))?;
        let lines = [format!("redis_up {up}"), format!("database_up {up}")];
        let look = async || {
            let text = String::from_utf8(internal.get("/metrics").await?.bytes)?;
            Ok(lines.iter().all(|line| text.lines().any(|shown| shown == line)).then_some(()))
        };
        eventually(&lines.join(", "), look).await?;
    }
    Ok(())
}

#[tokio::test]
async fn servers_that_are_away_are_seen() -> Result<()> {
    let mut cluster = Cluster::builder().own_postgres().worker(1).scheduler(1).start().await?;
    said(&cluster, 1).await?;
    cluster.redis.kill9()?;
    cluster.postgres.as_mut().context("asked for")?.kill_immediate()?;
    said(&cluster, 0).await?;
    cluster.redis.restart().await?;
    cluster.postgres.as_mut().context("asked for")?.restart().await?;
    said(&cluster, 1).await
}

/// What every process says of its database, and what its clock says.
async fn committing(cluster: &Cluster, up: u8) -> Result<()> {
    for kind in [Kind::Api, Kind::Worker, Kind::Scheduler, Kind::Gateway] {
        let internal = Client::new(&cluster.metrics_url(kind, 0))?;
        let line = format!("database_up {up}");
        let text = eventually(&line, async || {
            let text = String::from_utf8(internal.get("/metrics").await?.bytes)?;
            Ok(text.lines().any(|shown| shown == line).then_some(text))
        })
        .await?;
        let off = text.lines().find_map(|line| line.strip_prefix("clock_off_seconds ")).context("no clock")?;
        assert!(off.parse::<f64>()?.abs() < 2.0, "of one machine: {off}");
        assert_eq!(internal.get("/readyz").await?.status, 200, "it answers all the same: {}", kind.name());
    }
    Ok(())
}

#[tokio::test]
async fn a_database_that_answers_and_commits_nothing_is_seen() -> Result<()> {
    let cluster = Cluster::builder().own_postgres().api(1).worker(1).scheduler(1).gateway(1).start().await?;
    let mut db = PgConnection::connect(cluster.database_url()).await?;
    committing(&cluster, 1).await?;
    // Its synchronous standby is away; and it was demoted, or may not write for another reason.
    for setting in ["synchronous_standby_names = 'nobody'", "default_transaction_read_only = on"] {
        let name = setting.split(' ').next().unwrap_or_default();
        for (change, up) in [(format!("SET {setting}"), 0), (format!("RESET {name}"), 1)] {
            sqlx::query(AssertSqlSafe(format!("ALTER SYSTEM {change}"))).execute(&mut db).await?;
            sqlx::query("SELECT pg_reload_conf()").execute(&mut db).await?;
            committing(&cluster, up).await?;
            let doctor = cluster.ctl_to_its_end(&["doctor", "--json"]).await?;
            let examined = doctor.json();
            let mut checks = examined["checks"].as_array().context("checks")?.iter();
            let commits = checks.find(|check| check["check"] == "commits").context("whether it commits")?;
            let expected = if up == 1 { ("ok", false) } else { ("bad", true) };
            assert_eq!((commits["grade"].as_str(), doctor.code == 2), (Some(expected.0), expected.1), "{examined}");
        }
    }
    Ok(())
}

//! The metrics of the processes show when Postgres or Redis is unavailable, and when it is back.

use anyhow::{Context, Result};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use testkit::{Client, Cluster, ProcessKind, eventually};

/// Waits until worker and scheduler report this state of Redis and Postgres.
async fn await_servers_up(cluster: &Cluster, up: u8) -> Result<()> {
    for kind in [ProcessKind::Worker, ProcessKind::Scheduler] {
        let internal = Client::new(&cluster.metrics_url(kind, 0))?;
        let lines = [format!("redis_up {up}"), format!("database_up {up}")];
        let poll = async || {
            let text = String::from_utf8(internal.get("/metrics").await?.bytes)?;
            Ok(lines.iter().all(|line| text.lines().any(|other| other == line)).then_some(()))
        };
        eventually(&lines.join(", "), poll).await?;
    }
    Ok(())
}

#[tokio::test]
async fn unavailable_servers_are_reported() -> Result<()> {
    let mut cluster = Cluster::builder().own_postgres().worker(1).scheduler(1).start().await?;
    await_servers_up(&cluster, 1).await?;
    cluster.redis.kill9()?;
    cluster.postgres.as_mut().context("requested above")?.kill_immediate()?;
    await_servers_up(&cluster, 0).await?;
    cluster.redis.restart().await?;
    cluster.postgres.as_mut().context("requested above")?.restart().await?;
    await_servers_up(&cluster, 1).await
}

/// The processes that Prometheus scrapes.
pub(crate) const PROCESSES: [ProcessKind; 5] =
    [ProcessKind::Api, ProcessKind::Portal, ProcessKind::Worker, ProcessKind::Scheduler, ProcessKind::Gateway];

/// Waits until every process reports this state of its database; each stays ready, with a correct clock.
async fn await_database_up(cluster: &Cluster, up: u8) -> Result<()> {
    for kind in PROCESSES {
        let internal = Client::new(&cluster.metrics_url(kind, 0))?;
        let line = format!("database_up {up}");
        let text = eventually(&line, async || {
            let text = String::from_utf8(internal.get("/metrics").await?.bytes)?;
            Ok(text.lines().any(|other| other == line).then_some(text))
        })
        .await?;
        let off = text.lines().find_map(|line| line.strip_prefix("clock_off_seconds ")).context("no clock")?;
        assert!(off.parse::<f64>()?.abs() < 2.0, "the clocks of one machine differ by {off} s");
        assert_eq!(internal.get("/readyz").await?.status, 200, "{} must stay ready", kind.name());
    }
    Ok(())
}

#[tokio::test]
async fn a_database_that_cannot_commit_is_reported() -> Result<()> {
    let cluster = Cluster::builder().own_postgres().api(1).portal(1).worker(1).scheduler(1).gateway(1).start().await?;
    let mut db = PgConnection::connect(cluster.database_url()).await?;
    await_database_up(&cluster, 1).await?;
    // Without its synchronous standby, and as a read-only server, for example after a demotion.
    for setting in ["synchronous_standby_names = 'nobody'", "default_transaction_read_only = on"] {
        let name = setting.split(' ').next().unwrap_or_default();
        for (change, up) in [(format!("SET {setting}"), 0), (format!("RESET {name}"), 1)] {
            sqlx::query(AssertSqlSafe(format!("ALTER SYSTEM {change}"))).execute(&mut db).await?;
            sqlx::query("SELECT pg_reload_conf()").execute(&mut db).await?;
            await_database_up(&cluster, up).await?;
            let doctor = cluster.ctl_output(&["doctor", "--json"]).await?;
            let findings = doctor.json();
            let mut checks = findings["checks"].as_array().context("checks")?.iter();
            let commits = checks.find(|check| check["check"] == "commits").context("the check `commits`")?;
            let expected = if up == 1 { ("ok", false) } else { ("bad", true) };
            assert_eq!((commits["grade"].as_str(), doctor.code == 2), (Some(expected.0), expected.1), "{findings}");
        }
    }
    Ok(())
}

//! The test servers themselves: they start, keep the data they should, and are never left running.

use std::{
    env,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result};
use sqlx::{Connection, PgConnection};
use testkit::{Database, TempDir, redis};

async fn query_count(url: &str, query: &'static str) -> Result<i64> {
    let mut connection = PgConnection::connect(url).await?;
    Ok(sqlx::query_scalar(query).fetch_one(&mut connection).await?)
}

#[tokio::test]
async fn databases_are_independent_and_dropped_after_use() -> Result<()> {
    let (first, second) = (Database::create().await?, Database::create().await?);
    let migrations = "SELECT count(*) FROM _sqlx_migrations";
    assert_eq!(query_count(first.url(), migrations).await?, query_count(second.url(), migrations).await?);
    let mut connection = PgConnection::connect(first.url()).await?;
    sqlx::query("CREATE TABLE only_here (id bigint)").execute(&mut connection).await?;
    assert!(query_count(second.url(), "SELECT count(*) FROM only_here").await.is_err());

    let admin = testkit::shared().await?.postgres.url("postgres");
    let name = first.name().to_owned();
    drop(first);
    let mut connection = PgConnection::connect(&admin).await?;
    let remaining: i64 = sqlx::query_scalar("SELECT count(*) FROM pg_database WHERE datname = $1")
        .bind(name)
        .fetch_one(&mut connection)
        .await?;
    assert_eq!(remaining, 0, "a database with an open connection was not dropped");
    Ok(())
}

#[tokio::test]
async fn postgres_recovers_from_a_crash_on_the_same_port() -> Result<()> {
    let directory = TempDir::new()?;
    let mut postgres =
        testkit::Postgres::start(&directory.path().join("pg"), testkit::postgres::Options::default()).await?;
    let url = postgres.url("postgres");
    let mut connection = PgConnection::connect(&url).await?;
    sqlx::query("CREATE TABLE kept AS SELECT 1 AS id").execute(&mut connection).await?;
    postgres.kill_immediate()?;
    assert!(query_count(&url, "SELECT 1::bigint").await.is_err());
    postgres.restart().await?;
    assert_eq!(query_count(&url, "SELECT count(*) FROM kept").await?, 1);
    Ok(())
}

#[tokio::test]
async fn redis_saves_its_data_only_when_persistent() -> Result<()> {
    for persistent in [false, true] {
        let directory = TempDir::new()?;
        let mut redis =
            redis::Redis::start(directory.path(), redis::Options { persistent, ..redis::Options::default() }).await?;
        let pid = redis.pid();
        redis.stop().await?;
        assert!(!is_running(pid), "stop left a process running");
        redis.restart().await?;
        redis.stop().await?;
        assert_eq!(directory.path().join("dump.rdb").exists(), persistent);
    }
    Ok(())
}

/// The child process of [`servers_stop_when_their_parent_is_killed`]: starts servers and waits.
#[tokio::test]
#[ignore = "the child process of another test"]
async fn holds_servers() -> Result<()> {
    let directory = TempDir::new()?;
    let mut paused = testkit::Redis::start(directory.path(), redis::Options::default()).await?;
    // A paused server reacts to no signal but SIGKILL.
    paused.pause()?;
    let servers = testkit::shared().await?;
    println!("pids {} {} {}", paused.pid(), servers.postgres.pid(), servers.redis.pid());
    std::future::pending().await
}

#[test]
fn servers_stop_when_their_parent_is_killed() -> Result<()> {
    let mut parent = Command::new(env::current_exe()?)
        .args(["--exact", "holds_servers", "--ignored", "--nocapture"])
        .stdout(Stdio::piped())
        .spawn()?;
    let mut lines = BufReader::new(parent.stdout.take().context("no stdout")?).lines();
    let pids = loop {
        let line = lines.next().context("the parent exited early")??;
        if let Some((_, pids)) = line.split_once("pids ") {
            break pids.split(' ').map(str::parse).collect::<Result<Vec<u32>, _>>()?;
        }
    };
    assert!(pids.iter().all(|pid| is_running(*pid)));
    parent.kill()?;
    parent.wait()?;
    for _ in 0..600 {
        if !pids.iter().any(|pid| is_running(*pid)) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("some of {pids:?} are still running");
}

fn is_running(pid: u32) -> bool {
    let Ok(state) = Command::new("ps").args(["-o", "stat=", "-p", &pid.to_string()]).output() else {
        return Path::new(&format!("/proc/{pid}")).exists();
    };
    state.status.success() && !state.stdout.starts_with(b"Z")
}

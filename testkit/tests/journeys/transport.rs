//! Postgres and Redis at the far end of a wire that others can touch: who they are is proven by a certificate, or nothing is said.

use std::time::Duration;

use anyhow::{Context, Result};
use queue::{Publisher, Queue, Replies};
use sqlx::{Connection, PgConnection};
use testkit::{Cluster, Kind, Postgres, Redis, TempDir, postgres, redis, tls};
use uuid::Uuid;

use crate::support::{Merchant, created, eventually};

async fn redis_by_tls(directory: &TempDir) -> Result<Redis> {
    Redis::start(&directory.path().join("redis"), redis::Options { tls: true, ..Default::default() }).await
}

async fn postgres_by_tls(directory: &TempDir) -> Result<Postgres> {
    let options = postgres::Options { tls: true, ..Default::default() };
    let postgres = Postgres::start(&directory.path().join("postgres"), options).await?;
    postgres.ensure_database("payments").await?;
    Ok(postgres)
}

fn verified(postgres: &Postgres, authority: &std::path::Path) -> String {
    format!("{}?sslmode=verify-full&sslrootcert={}", postgres.url("payments"), authority.display())
}

#[tokio::test]
async fn everything_works_where_postgres_and_redis_speak_tls() -> Result<()> {
    let directory = TempDir::new()?;
    let (postgres, redis) = tokio::try_join!(postgres_by_tls(&directory), redis_by_tls(&directory))?;
    let authority = tls::write(directory.path(), "authority.pem", tls::AUTHORITY)?;
    let database_url = verified(&postgres, &authority);
    let (redis_url, authority) = (redis.tls_url().context("TLS")?, authority.display().to_string());
    let cluster = Cluster::builder()
        .env("DATABASE_URL", &database_url)
        .env("REDIS_URL", &redis_url)
        .env("REDIS_CA_FILE", &authority)
        .api(1)
        .worker(1)
        .scheduler(1)
        .start()
        .await?;
    let merchant = Merchant::new(&cluster).await?;
    // The id goes by Redis, and so does the answer: without it a worker would look after a second.
    created(&merchant.pay(100).await?);
    let kept = merchant.pay(200).await?;
    assert_eq!(created(&kept)["status"], "pending_settlement");
    let metrics = testkit::Client::new(&cluster.metrics_url(Kind::Worker, 0))?;
    eventually("Redis", async || {
        let figures = String::from_utf8(metrics.get("/metrics").await?.bytes)?;
        Ok(figures.lines().any(|line| line == "redis_up 1").then_some(()))
    })
    .await?;
    let mut db = PgConnection::connect(&postgres.url("payments")).await?;
    let (plain, encrypted): (i64, i64) = sqlx::query_as(
        "SELECT count(*) FILTER (WHERE NOT s.ssl), count(*) FILTER (WHERE s.ssl) FROM pg_stat_ssl s
         JOIN pg_stat_activity a USING (pid) WHERE a.application_name IN ('api', 'worker', 'scheduler')",
    )
    .fetch_one(&mut db)
    .await?;
    assert!(plain == 0 && encrypted >= 3, "{plain} connections in clear and {encrypted} encrypted");
    Ok(())
}

#[tokio::test]
async fn a_postgres_for_which_nobody_vouches_is_told_nothing() -> Result<()> {
    let directory = TempDir::new()?;
    let postgres = postgres_by_tls(&directory).await?;
    let authority = tls::write(directory.path(), "authority.pem", tls::AUTHORITY)?;
    let stranger = tls::write(directory.path(), "stranger.pem", tls::STRANGER)?;
    PgConnection::connect(&verified(&postgres, &authority)).await?.close().await?;
    // A stranger signed nothing; and the certificate is for other names than this one.
    let elsewhere = verified(&postgres, &authority).replace("@127.0.0.1:", "@127.0.0.2:");
    let roots = format!("{}?sslmode=verify-full", postgres.url("payments"));
    for url in [verified(&postgres, &stranger), elsewhere, roots] {
        assert!(PgConnection::connect(&url).await.is_err(), "{url}");
    }
    Ok(())
}

/// Each kind of connection that processes make: for commands, for replies, and in haste.
#[tokio::test]
async fn a_redis_for_which_nobody_vouches_is_told_nothing() -> Result<()> {
    const QUEUE: Queue = Queue::new("by_tls");
    let directory = TempDir::new()?;
    let redis = redis_by_tls(&directory).await?;
    let url = redis.tls_url().context("TLS")?;
    let right = queue::Redis::vouched_for_by(&url, tls::AUTHORITY)?;
    let publisher = Publisher::connect(&right);
    publisher.ping().await?;
    publisher.push(QUEUE, &[Uuid::nil().into()]).await?;
    let replies = Replies::start(&right, "here");
    eventually("a reply", async || {
        let mut waiter = replies.register(Uuid::nil());
        publisher.reply("here", Uuid::nil()).await?;
        let woken = tokio::time::timeout(Duration::from_millis(200), waiter.woken()).await;
        Ok(woken.is_ok().then_some(()))
    })
    .await?;
    // Beside the stranger: the authorities of the web, who vouch for others.
    for wrong in [queue::Redis::vouched_for_by(&url, tls::STRANGER)?, queue::Redis::new(&url)?] {
        let publisher = Publisher::connect(&wrong);
        assert!(publisher.ping().await.is_err());
        assert!(publisher.push(QUEUE, &[Uuid::nil().into()]).await.is_err());
    }
    // No certificate at all, and one for a Redis in clear.
    assert!(queue::Redis::vouched_for_by(&url, "nonsense").is_err());
    assert!(queue::Redis::vouched_for_by(&redis.url(), tls::AUTHORITY).is_err());
    Ok(())
}

/// What an operator gets wrong is said at the start, and not passed over.
#[tokio::test]
async fn a_redis_in_clear_needs_no_authority() -> Result<()> {
    let directory = TempDir::new()?;
    let authority = tls::write(directory.path(), "authority.pem", tls::AUTHORITY)?.display().to_string();
    let cluster = Cluster::builder().env("REDIS_CA_FILE", &authority).start().await?;
    let ended = cluster.ctl_to_its_end(&["accounts", "list"]).await?;
    assert_ne!(ended.code, 0);
    assert!(ended.complaint.contains("REDIS_CA"), "{}", ended.complaint);
    Ok(())
}

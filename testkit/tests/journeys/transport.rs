//! TLS to Postgres and Redis: connections to servers without a trusted certificate are rejected.

use std::time::Duration;

use anyhow::{Context, Result};
use queue::{Publisher, Queue, Replies};
use sqlx::{Connection, PgConnection};
use testkit::{Cluster, Postgres, ProcessKind, Redis, TempDir, postgres, redis, tls};
use uuid::Uuid;

use crate::support::{Merchant, cluster, created, eventually};

async fn redis_with_tls(directory: &TempDir) -> Result<Redis> {
    Redis::start(&directory.path().join("redis"), redis::Options { tls: true, ..Default::default() }).await
}

async fn postgres_with_tls(directory: &TempDir) -> Result<Postgres> {
    let options = postgres::Options { tls: true, ..Default::default() };
    let postgres = Postgres::start(&directory.path().join("postgres"), options).await?;
    postgres.ensure_database("payments").await?;
    Ok(postgres)
}

fn verify_full_url(postgres: &Postgres, authority: &std::path::Path) -> String {
    format!("{}?sslmode=verify-full&sslrootcert={}", postgres.url("payments"), authority.display())
}

#[tokio::test]
async fn everything_works_with_tls_to_postgres_and_redis() -> Result<()> {
    let directory = TempDir::in_memory()?;
    let (postgres, redis) = tokio::try_join!(postgres_with_tls(&directory), redis_with_tls(&directory))?;
    let authority = tls::write(directory.path(), "authority.pem", tls::AUTHORITY)?;
    let database_url = verify_full_url(&postgres, &authority);
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
    // The operation id and the reply go through Redis; without it a worker would poll only after a second.
    created(&merchant.pay(100).await?);
    let second = merchant.pay(200).await?;
    assert_eq!(created(&second)["status"], "pending_settlement");
    let metrics = testkit::Client::new(&cluster.metrics_url(ProcessKind::Worker, 0))?;
    eventually("redis_up 1", async || {
        let text = String::from_utf8(metrics.get("/metrics").await?.bytes)?;
        Ok(text.lines().any(|line| line == "redis_up 1").then_some(()))
    })
    .await?;
    let mut db = PgConnection::connect(&postgres.url("payments")).await?;
    let (plain, encrypted): (i64, i64) = sqlx::query_as(
        "SELECT count(*) FILTER (WHERE NOT s.ssl), count(*) FILTER (WHERE s.ssl) FROM pg_stat_ssl s
         JOIN pg_stat_activity a USING (pid) WHERE a.application_name IN ('api', 'worker', 'scheduler')",
    )
    .fetch_one(&mut db)
    .await?;
    assert!(plain == 0 && encrypted >= 3, "{plain} unencrypted and {encrypted} encrypted connections");
    Ok(())
}

#[tokio::test]
async fn postgres_with_an_untrusted_certificate_is_rejected() -> Result<()> {
    let directory = TempDir::in_memory()?;
    let postgres = postgres_with_tls(&directory).await?;
    let authority = tls::write(directory.path(), "authority.pem", tls::AUTHORITY)?;
    let untrusted = tls::write(directory.path(), "untrusted.pem", tls::UNTRUSTED_AUTHORITY)?;
    PgConnection::connect(&verify_full_url(&postgres, &authority)).await?.close().await?;
    // An untrusted authority, a host name that the certificate does not cover, and the public root certificates.
    let other_host = verify_full_url(&postgres, &authority).replace("@127.0.0.1:", "@127.0.0.2:");
    let public_roots = format!("{}?sslmode=verify-full", postgres.url("payments"));
    for url in [verify_full_url(&postgres, &untrusted), other_host, public_roots] {
        assert!(PgConnection::connect(&url).await.is_err(), "{url}");
    }
    Ok(())
}

/// Tests the connections that processes make to Redis, for commands and for replies.
#[tokio::test]
async fn redis_with_an_untrusted_certificate_is_rejected() -> Result<()> {
    const QUEUE: Queue = Queue::new("by_tls");
    let directory = TempDir::in_memory()?;
    let redis = redis_with_tls(&directory).await?;
    let url = redis.tls_url().context("TLS")?;
    let trusted = queue::Redis::with_root_certificates(&url, tls::AUTHORITY)?;
    let publisher = Publisher::connect(&trusted);
    publisher.ping().await?;
    publisher.push(QUEUE, &[Uuid::nil().into()]).await?;
    let replies = Replies::start(&trusted, "here");
    eventually("a reply", async || {
        let mut waiter = replies.register(Uuid::nil());
        publisher.reply("here", Uuid::nil()).await?;
        let notified = tokio::time::timeout(Duration::from_millis(200), waiter.notified()).await;
        Ok(notified.is_ok().then_some(()))
    })
    .await?;
    // An untrusted authority and the public root certificates.
    for wrong in [queue::Redis::with_root_certificates(&url, tls::UNTRUSTED_AUTHORITY)?, queue::Redis::new(&url)?] {
        let publisher = Publisher::connect(&wrong);
        assert!(publisher.ping().await.is_err());
        assert!(publisher.push(QUEUE, &[Uuid::nil().into()]).await.is_err());
    }
    // An invalid certificate, and a certificate for a Redis without TLS.
    assert!(queue::Redis::with_root_certificates(&url, "nonsense").is_err());
    assert!(queue::Redis::with_root_certificates(&redis.url(), tls::AUTHORITY).is_err());
    Ok(())
}

/// A wrong setting is an error at startup and not ignored.
#[tokio::test]
async fn a_redis_ca_without_tls_is_an_error() -> Result<()> {
    let directory = TempDir::in_memory()?;
    let authority = tls::write(directory.path(), "authority.pem", tls::AUTHORITY)?.display().to_string();
    let output =
        cluster().await?.ctl_output_with(&[("REDIS_CA_FILE", authority.as_str())], &["accounts", "list"]).await?;
    assert_ne!(output.code, 0);
    assert!(output.stderr.contains("REDIS_CA"), "{}", output.stderr);
    Ok(())
}

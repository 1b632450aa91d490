//! Behind a balancer: whom a request is counted as, and how many connections there may be.

use anyhow::{Context, Result};
use serde_json::json;
use testkit::{Answer, Client, Cluster, Kind};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::support::{Merchant, Payer, created, eventually};

/// A page of a link, asked for as a balancer on this machine asks for somebody.
async fn page(cluster: &Cluster) -> Result<(Client, String)> {
    let merchant = Merchant::new(cluster).await?;
    let made = merchant.api.post("/v1/payment_links", json!({"amount": 500, "currency": "USD"})).await?;
    let payer = Payer::of(created(&made), &cluster.api_url(0))?;
    Ok((Client::new(&cluster.api_url(0))?, payer.path().to_owned()))
}

async fn asks(client: &Client, path: &str, forwarded: &str) -> Result<Answer> {
    client.header("x-forwarded-for", forwarded)?.get(path).await
}

/// Until there are no more.
async fn exhaust(client: &Client, path: &str, forwarded: &str) -> Result<()> {
    eventually("the end of the bucket", async || Ok((asks(client, path, forwarded).await?.status == 429).then_some(())))
        .await
}

#[tokio::test]
async fn payers_behind_a_trusted_balancer_are_counted_apart() -> Result<()> {
    let cluster = Cluster::builder()
        .env("TRUSTED_PROXIES", "127.0.0.0/8, 10.0.0.0/8")
        .env("PAGE_RATE_LIMIT", "1")
        .api(1)
        .start()
        .await?;
    let (client, path) = page(&cluster).await?;
    exhaust(&client, &path, "192.0.2.7").await?;
    // Somebody else is let in, also by way of a second proxy of ours.
    assert_eq!(asks(&client, &path, "192.0.2.8").await?.status, 200);
    assert_eq!(asks(&client, &path, "192.0.2.9, 10.0.0.3").await?.status, 200);
    // What the first writes itself stands before what the balancer adds, and helps nobody.
    exhaust(&client, &path, "198.51.100.1, 192.0.2.7").await?;
    for forged in ["198.51.100.2, 192.0.2.7", "10.0.0.9,192.0.2.7", "nonsense, 192.0.2.7:4711", "192.0.2.7, 10.0.0.3"] {
        // It has a request back each second.
        exhaust(&client, &path, forged).await?;
    }
    assert_eq!(asks(&client, &path, "198.51.100.1").await?.status, 200, "nobody has used up another's");
    Ok(())
}

#[tokio::test]
async fn nobody_is_believed_who_is_not_trusted() -> Result<()> {
    let cluster = Cluster::builder().env("PAGE_RATE_LIMIT", "1").api(1).start().await?;
    let (client, path) = page(&cluster).await?;
    let mut number = 0;
    eventually("the end of the one bucket", async || {
        number += 1;
        Ok((asks(&client, &path, &format!("192.0.2.{}", number % 250)).await?.status == 429).then_some(()))
    })
    .await
}

/// Whoever comes without a key, and browsers at the gateway, are counted by the same rule.
#[tokio::test]
async fn strangers_behind_a_trusted_balancer_are_counted_apart() -> Result<()> {
    let cluster = Cluster::builder()
        .env("TRUSTED_PROXIES", "127.0.0.1")
        .env("GATEWAY_PUBLIC_RATE", "1")
        .env("UNAUTHENTICATED_RATE_LIMIT", "1")
        .api(1)
        .gateway(1)
        .start()
        .await?;
    let api = Client::new(&cluster.api_url(0))?;
    let gateway = Client::new(&cluster.gateway_url(0))?;
    for (client, path, refused) in [(&api, "/v1/payments", 401), (&gateway, "/services/3ds/nothing", 404)] {
        let until_refused = async |_| asks(client, path, "192.0.2.7").await;
        eventually("the end of the bucket", async || {
            let answers = crate::support::together(40, until_refused).await?;
            Ok(answers.iter().any(|answer| answer.status == 429).then_some(()))
        })
        .await?;
        assert_eq!(asks(client, path, "192.0.2.8").await?.status, refused, "{path}");
    }
    Ok(())
}

/// Those who hold connections keep others waiting, but not whoever watches the process.
#[tokio::test]
async fn connections_are_bounded_and_the_rest_wait() -> Result<()> {
    let cluster = Cluster::builder().env("MAX_CONNECTIONS", "3").api(1).start().await?;
    let watch = Client::new(&cluster.metrics_url(Kind::Api, 0))?;
    let address = cluster.api_url(0).strip_prefix("http://").context("an address")?.to_owned();
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(TcpStream::connect(&address).await?);
    }
    let figure = async |wanted: &str| {
        eventually(wanted, async || {
            let figures = String::from_utf8(watch.get("/metrics").await?.bytes)?;
            Ok(figures.lines().any(|line| line == wanted).then_some(()))
        })
        .await
    };
    figure("http_connections_limit{listener=\"public\"} 3").await?;
    figure("http_connections{listener=\"public\"} 3").await?;
    let mut late = TcpStream::connect(&address).await?;
    late.write_all(b"GET /openapi.json HTTP/1.1\r\nHost: api\r\nConnection: close\r\n\r\n").await?;
    ok_ready(&watch).await?;
    let mut said = [0; 12];
    let waiting = tokio::time::timeout(std::time::Duration::from_millis(300), late.read_exact(&mut said)).await;
    assert!(waiting.is_err(), "there was no room for it");
    held.pop();
    late.read_exact(&mut said).await?;
    assert_eq!(&said, b"HTTP/1.1 200");
    Ok(())
}

async fn ok_ready(watch: &Client) -> Result<()> {
    let ready = watch.get("/readyz").await?;
    assert_eq!(ready.status, 200);
    Ok(())
}

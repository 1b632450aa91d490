//! Behind a load balancer: the client address that a request is counted by, and the connection limit.

use anyhow::{Context, Result};
use serde_json::json;
use testkit::{Client, Cluster, ProcessKind, Response};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::support::{Merchant, Payer, created, eventually};

/// A client on loopback, where the balancer would be, and the path of a payment page.
async fn page(cluster: &Cluster) -> Result<(Client, String)> {
    let merchant = Merchant::new(cluster).await?;
    let link = merchant.api.post("/v1/payment_links", json!({"amount": 500, "currency": "USD"})).await?;
    let payer = Payer::for_object(created(&link), &cluster.api_url(0))?;
    Ok((Client::new(&cluster.api_url(0))?, payer.path().to_owned()))
}

async fn get_forwarded(client: &Client, path: &str, forwarded: &str) -> Result<Response> {
    client.header("x-forwarded-for", forwarded)?.get(path).await
}

/// Sends requests until the rate limit returns 429.
async fn exhaust(client: &Client, path: &str, forwarded: &str) -> Result<()> {
    eventually("a 429", async || Ok((get_forwarded(client, path, forwarded).await?.status == 429).then_some(()))).await
}

#[tokio::test]
async fn payers_behind_a_trusted_balancer_are_counted_separately() -> Result<()> {
    let cluster = Cluster::builder()
        .env("TRUSTED_PROXIES", "127.0.0.0/8, 10.0.0.0/8")
        .env("PAGE_RATE_LIMIT", "1")
        .api(1)
        .start()
        .await?;
    let (client, path) = page(&cluster).await?;
    exhaust(&client, &path, "192.0.2.7").await?;
    // Another client is served, also through a second trusted proxy.
    assert_eq!(get_forwarded(&client, &path, "192.0.2.8").await?.status, 200);
    assert_eq!(get_forwarded(&client, &path, "192.0.2.9, 10.0.0.3").await?.status, 200);
    // Entries that a client writes itself precede the one that the balancer adds, and are ignored.
    exhaust(&client, &path, "198.51.100.1, 192.0.2.7").await?;
    for forged in ["198.51.100.2, 192.0.2.7", "10.0.0.9,192.0.2.7", "nonsense, 192.0.2.7:4711", "192.0.2.7, 10.0.0.3"] {
        // One token returns each second.
        exhaust(&client, &path, forged).await?;
    }
    assert_eq!(
        get_forwarded(&client, &path, "198.51.100.1").await?.status,
        200,
        "a forged address uses no other client's limit"
    );
    Ok(())
}

#[tokio::test]
async fn forwarded_addresses_of_untrusted_peers_are_ignored() -> Result<()> {
    let cluster = Cluster::builder().env("PAGE_RATE_LIMIT", "1").api(1).start().await?;
    let (client, path) = page(&cluster).await?;
    let mut number = 0;
    eventually("a 429 of the shared bucket", async || {
        number += 1;
        Ok((get_forwarded(&client, &path, &format!("192.0.2.{}", number % 250)).await?.status == 429).then_some(()))
    })
    .await
}

/// API clients without a key and browsers at the gateway are counted by the same rule.
#[tokio::test]
async fn unauthenticated_clients_behind_a_balancer_are_counted_separately() -> Result<()> {
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
    for (client, path, unlimited_status) in [(&api, "/v1/payments", 401), (&gateway, "/services/3ds/nothing", 404)] {
        let send = async |_| get_forwarded(client, path, "192.0.2.7").await;
        eventually("a 429", async || {
            let responses = crate::support::concurrently(40, send).await?;
            Ok(responses.iter().any(|response| response.status == 429).then_some(()))
        })
        .await?;
        assert_eq!(get_forwarded(client, path, "192.0.2.8").await?.status, unlimited_status, "{path}");
    }
    Ok(())
}

/// Connections above the limit wait, while the internal listener still responds.
#[tokio::test]
async fn connections_above_the_limit_wait() -> Result<()> {
    let cluster = Cluster::builder().env("MAX_CONNECTIONS", "3").api(1).start().await?;
    let internal = Client::new(&cluster.metrics_url(ProcessKind::Api, 0))?;
    let address = cluster.api_url(0).strip_prefix("http://").context("an address")?.to_owned();
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(TcpStream::connect(&address).await?);
    }
    let wait_for_metric = async |expected: &str| {
        eventually(expected, async || {
            let metrics = String::from_utf8(internal.get("/metrics").await?.bytes)?;
            Ok(metrics.lines().any(|line| line == expected).then_some(()))
        })
        .await
    };
    wait_for_metric("http_connections_limit{listener=\"public\"} 3").await?;
    wait_for_metric("http_connections{listener=\"public\"} 3").await?;
    let mut late = TcpStream::connect(&address).await?;
    late.write_all(b"GET /openapi.json HTTP/1.1\r\nHost: api\r\nConnection: close\r\n\r\n").await?;
    assert_ready(&internal).await?;
    let mut head = [0; 12];
    let waiting = tokio::time::timeout(std::time::Duration::from_millis(300), late.read_exact(&mut head)).await;
    assert!(waiting.is_err(), "a connection above the limit must wait");
    held.pop();
    late.read_exact(&mut head).await?;
    assert_eq!(&head, b"HTTP/1.1 200");
    Ok(())
}

async fn assert_ready(internal: &Client) -> Result<()> {
    let ready = internal.get("/readyz").await?;
    assert_eq!(ready.status, 200);
    Ok(())
}

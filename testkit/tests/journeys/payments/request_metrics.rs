//! Request metrics: abandoned requests are counted, and clients cannot create new metric series.

use anyhow::{Context, Result};
use reqwest::Method;
use testkit::{Client, Cluster, ProcessKind};
use tokio::{io::AsyncWriteExt, net::TcpStream};

use crate::support::{Merchant, cluster_without_scheduler, concurrently, eventually, metric, sale};

#[tokio::test]
async fn unknown_methods_share_one_metric_series() -> Result<()> {
    let cluster = cluster_without_scheduler().await?;
    let unauthenticated = Client::new(&cluster.api_url(0))?;
    let responses = concurrently(1000, async |i| {
        let method = Method::from_bytes(format!("ODDITY{i}").as_bytes())?;
        unauthenticated.send(method, "/v1/payments", None).await
    })
    .await?;
    assert!(responses.iter().all(|response| response.status == 405));
    let metrics = Client::new(&cluster.metrics_url(ProcessKind::Api, 0))?.get("/metrics").await?;
    let text = String::from_utf8(metrics.bytes)?;
    let of_others = |line: &&str| line.starts_with("http_requests_total{") && line.contains("\"other\"");
    let counted: Vec<_> = text.lines().filter(of_others).filter(|line| line.contains("\"/v1/payments\"")).collect();
    assert_eq!(counted, [r#"http_requests_total{method="other",route="/v1/payments",status="405"} 1000"#]);
    assert!(!text.contains("ODDITY"), "unknown methods must not become label values, because series are never removed");
    let log = cluster.log(ProcessKind::Api, 0);
    assert!(log.contains("request completed") && !log.contains("ODDITY"));
    Ok(())
}

#[tokio::test]
async fn requests_abandoned_by_the_client_are_counted() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).worker(1).start().await?;
    let merchant = Merchant::new(&cluster).await?;
    // The request waits for the paused worker.
    cluster.worker(0).pause()?;
    let address = merchant.api.base().strip_prefix("http://").context("an address")?;
    let mut client = TcpStream::connect(address).await?;
    let (key, body) = (&merchant.account.secret_key, sale(100).to_string());
    let request = format!(
        "POST /v1/payments HTTP/1.1\r\nHost: api\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    client.write_all(request.as_bytes()).await?;
    eventually("the intent", async || Ok((merchant.books.operations().await? == 1).then_some(()))).await?;
    drop(client);
    for name in [
        r#"http_requests_total{method="POST",route="/v1/payments",status="499"}"#,
        // The PaymentsSlow alert uses this metric.
        r#"http_request_duration_seconds_count{method="POST",route="/v1/payments"}"#,
    ] {
        eventually(name, async || {
            Ok(metric(&cluster, ProcessKind::Api, name).await.ok().filter(|count| *count == 1.0))
        })
        .await?;
    }
    let log = cluster.api(0).log();
    let is_abandoned =
        |line: &&str| line.contains("request completed") && line.contains("499") && line.contains("req_");
    assert_eq!(log.lines().filter(is_abandoned).count(), 1, "{log}");
    // The payment completes without the client.
    cluster.worker(0).resume()?;
    eventually("the charge", async || Ok((merchant.books.charges().await? == 1).then_some(()))).await
}

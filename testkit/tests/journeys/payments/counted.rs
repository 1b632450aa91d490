//! Every request is counted, also one whose client gave up, and nobody chooses what series there are.

use anyhow::{Context, Result};
use reqwest::Method;
use testkit::{Client, Cluster, Kind};
use tokio::{io::AsyncWriteExt, net::TcpStream};

use crate::support::{Merchant, eventually, figure, sale, together};

#[tokio::test]
async fn methods_that_a_stranger_makes_up_are_one_series() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).start().await?;
    let stranger = Client::new(&cluster.api_url(0))?;
    let answers = together(1000, async |i| {
        let method = Method::from_bytes(format!("ODDITY{i}").as_bytes())?;
        stranger.send(method, "/v1/payments", None).await
    })
    .await?;
    assert!(answers.iter().all(|answer| answer.status == 405));
    let metrics = Client::new(&cluster.metrics_url(Kind::Api, 0))?.get("/metrics").await?;
    let text = String::from_utf8(metrics.bytes)?;
    let counted: Vec<_> =
        text.lines().filter(|line| line.starts_with("http_requests_total{") && line.contains("\"other\"")).collect();
    assert_eq!(counted, [r#"http_requests_total{method="other",route="/v1/payments",status="405"} 1000"#]);
    assert!(!text.contains("ODDITY"), "no series is ever forgotten");
    let log = cluster.api(0).log();
    assert!(log.contains("answered") && !log.contains("ODDITY"));
    Ok(())
}

#[tokio::test]
async fn a_request_whose_client_gave_up_is_counted() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).worker(1).start().await?;
    let merchant = Merchant::new(&cluster).await?;
    // Whoever pays waits for a worker.
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
        // What PaymentsSlow is told by.
        r#"http_request_duration_seconds_count{method="POST",route="/v1/payments"}"#,
    ] {
        eventually(name, async || Ok(figure(&cluster, Kind::Api, name).await.ok().filter(|count| *count == 1.0)))
            .await?;
    }
    let log = cluster.api(0).log();
    let told = |line: &&str| line.contains("answered") && line.contains("499") && line.contains("req_");
    assert_eq!(log.lines().filter(told).count(), 1, "{log}");
    // The payment goes on without it.
    cluster.worker(0).resume()?;
    eventually("the charge", async || Ok((merchant.books.charges().await? == 1).then_some(()))).await
}

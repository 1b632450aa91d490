//! The examples for merchants, with the public libraries they use, as receivers of real deliveries.

use std::{process::Stdio, time::Duration};

use anyhow::{Context, Result};
use serde_json::json;
use testkit::{Client, integration_examples::Example};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout},
    time::timeout,
};

use super::{Endpoint, signature};
use crate::support::{Receiver, Reply, merchant};

/// The secret of another endpoint.
const OTHER_SECRET: &str = "whsec_q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA=";

/// A running example and its output.
struct Running {
    lines: Lines<BufReader<ChildStdout>>,
    /// Killed on drop.
    _child: Child,
}

impl Running {
    fn start(example: &Example, secret: &str) -> Result<Self> {
        let mut command = example.command();
        command.env("WEBHOOK_SECRET", secret).env("PORT", "0").stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let lines = BufReader::new(child.stdout.take().context("no stdout")?).lines();
        Ok(Self { lines, _child: child })
    }

    async fn line(&mut self) -> Result<String> {
        let line = timeout(Duration::from_secs(60), self.lines.next_line()).await;
        line.context("the example prints nothing")??.context("the example has exited")
    }
}

/// The example accepts our deliveries, and rejects a changed body, another signature and an old timestamp.
async fn check_example(example: &Example) -> Result<()> {
    let receiver = Receiver::start(|_| Reply::ok()).await?;
    let merchant = merchant().await?;
    let endpoint = Endpoint::new(&merchant, &receiver, "/first", &["customer.created", "payment.captured"]).await?;
    merchant.customer().await?;
    let request = receiver.wait_for_requests("/first", 1).await?.remove(0);
    endpoint.done(1).await?;

    let mut running = Running::start(example, &endpoint.secret)?;
    let line = running.line().await?;
    let url = line.strip_prefix("listening on ").with_context(|| line.clone())?;
    endpoint.update(json!({"url": url})).await?;
    merchant.charge(100).await?;
    assert!(running.line().await?.starts_with("payment.captured evt_"));
    merchant.customer().await?;
    assert!(running.line().await?.starts_with("customer.created evt_"));
    for delivery in &endpoint.done(3).await?[1..] {
        assert_eq!(delivery["status"], "succeeded", "{delivery}");
        assert_eq!(delivery["responseStatus"], 204, "{delivery}");
    }

    let (id, timestamp) = (request.header("webhook-id"), request.header("webhook-timestamp"));
    let old = (timestamp.parse::<u64>()? - 3600).to_string();
    let valid_signature = request.header("webhook-signature");
    let (body, mut tampered) = (request.body.clone(), request.body.clone());
    *tampered.last_mut().context("a body")? = b' ';
    for (timestamp, signature, body, status) in [
        (timestamp, valid_signature, &body, 204),
        (timestamp, valid_signature, &tampered, 400),
        (timestamp, &signature(OTHER_SECRET, id, timestamp, &body)?, &body, 400),
        (&old, &signature(&endpoint.secret, id, &old, &body)?, &body, 400),
        (timestamp, "garbage", &body, 400),
    ] {
        let sender = Client::new(url)?
            .header("webhook-id", id)?
            .header("webhook-timestamp", timestamp)?
            .header("webhook-signature", signature)?;
        let response = sender.send(reqwest::Method::POST, "", Some(body.clone())).await?;
        assert_eq!(response.status, status, "{timestamp} {signature}");
    }
    assert!(running.line().await?.starts_with("customer.created evt_"), "the valid request is printed");
    Ok(())
}

#[tokio::test]
async fn the_python_example_verifies_our_deliveries() -> Result<()> {
    match Example::in_python("webhooks", "receive.py").await? {
        Some(example) => check_example(&example).await,
        None => Ok(()),
    }
}

#[tokio::test]
async fn the_node_example_verifies_our_deliveries() -> Result<()> {
    match Example::in_node("webhooks", "receive.mjs").await? {
        Some(example) => check_example(&example).await,
        None => Ok(()),
    }
}

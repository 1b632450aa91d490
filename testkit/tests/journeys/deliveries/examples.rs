//! The examples that merchants copy, with the public libraries they name, as receivers of real deliveries.

use std::{process::Stdio, time::Duration};

use anyhow::{Context, Result};
use serde_json::json;
use testkit::{Client, examples::Example};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout},
    time::timeout,
};

use super::{Endpoint, signature};
use crate::support::{Receiver, Reply, merchant};

/// A secret, of somebody else.
const OTHERS: &str = "whsec_q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA=";

/// An example that runs, and what it prints.
struct Running {
    lines: Lines<BufReader<ChildStdout>>,
    /// Killed with this value.
    _child: Child,
}

impl Running {
    fn start(example: &Example, secret: &str) -> Result<Self> {
        let mut command = example.command();
        command.env("WEBHOOK_SECRET", secret).env("PORT", "0").stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let lines = BufReader::new(child.stdout.take().context("its output")?).lines();
        Ok(Self { lines, _child: child })
    }

    async fn line(&mut self) -> Result<String> {
        let line = timeout(Duration::from_secs(60), self.lines.next_line()).await;
        line.context("it says nothing")??.context("it has ended")
    }
}

/// The example takes what we deliver, and refuses what was changed, is signed by another, or is old.
async fn verifies(example: &Example) -> Result<()> {
    let elsewhere = Receiver::start(|_| Reply::ok()).await?;
    let merchant = merchant().await?;
    let endpoint = Endpoint::new(&merchant, &elsewhere, "/first", &["customer.created", "payment.captured"]).await?;
    merchant.customer().await?;
    let request = elsewhere.hears("/first", 1).await?.remove(0);
    endpoint.done(1).await?;

    let mut running = Running::start(example, &endpoint.secret)?;
    let said = running.line().await?;
    let url = said.strip_prefix("listening on ").with_context(|| said.clone())?;
    endpoint.update(json!({"url": url})).await?;
    merchant.sold(100).await?;
    assert!(running.line().await?.starts_with("payment.captured evt_"));
    merchant.customer().await?;
    assert!(running.line().await?.starts_with("customer.created evt_"));
    for delivery in &endpoint.done(3).await?[1..] {
        assert_eq!(delivery["status"], "succeeded", "{delivery}");
        assert_eq!(delivery["responseStatus"], 204, "{delivery}");
    }

    let (id, timestamp) = (request.header("webhook-id"), request.header("webhook-timestamp"));
    let old = (timestamp.parse::<u64>()? - 3600).to_string();
    let right = request.header("webhook-signature");
    let (body, mut tampered) = (request.body.clone(), request.body.clone());
    *tampered.last_mut().context("a body")? = b' ';
    for (timestamp, signature, body, status) in [
        (timestamp, right, &body, 204),
        (timestamp, right, &tampered, 400),
        (timestamp, &signature(OTHERS, id, timestamp, &body)?, &body, 400),
        (&old, &signature(&endpoint.secret, id, &old, &body)?, &body, 400),
        (timestamp, "garbage", &body, 400),
    ] {
        let sender = Client::new(url)?
            .header("webhook-id", id)?
            .header("webhook-timestamp", timestamp)?
            .header("webhook-signature", signature)?;
        let answer = sender.send(reqwest::Method::POST, "", Some(body.clone())).await?;
        assert_eq!(answer.status, status, "{timestamp} {signature}");
    }
    assert!(running.line().await?.starts_with("customer.created evt_"), "the one that was right");
    Ok(())
}

#[tokio::test]
async fn the_example_in_python_verifies_what_we_deliver() -> Result<()> {
    match Example::in_python("webhooks", "receive.py").await? {
        Some(example) => verifies(&example).await,
        None => Ok(()),
    }
}

#[tokio::test]
async fn the_example_in_node_verifies_what_we_deliver() -> Result<()> {
    match Example::in_node("webhooks", "receive.mjs").await? {
        Some(example) => verifies(&example).await,
        None => Ok(()),
    }
}

//! The example for merchants: its server makes a payment with the token that its page received.

use std::{io::Write, path::Path, process::Stdio, time::Duration};

use anyhow::{Context, Result};
use serde_json::json;
use testkit::Client;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Command,
    time::timeout,
};

use crate::support::{Browser, cluster, merchant};

#[tokio::test]
async fn the_example_accepts_a_payment() -> Result<()> {
    let merchant = merchant().await?;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/elements");
    let mut command = Command::new("node");
    command.arg(folder.join("server.mjs")).stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
    command.env("API_URL", cluster().await?.api_url(0)).env("PORT", "0");
    command.env("SECRET_KEY", &merchant.account.secret_key).env("PUBLISHABLE_KEY", &merchant.account.publishable_key);
    let Ok(mut child) = command.spawn() else {
        writeln!(std::io::stderr(), "SKIPPED: examples/elements was not run, because this machine has no node")?;
        return Ok(());
    };
    let mut lines = BufReader::new(child.stdout.take().context("no stdout")?).lines();
    let line = timeout(Duration::from_secs(60), lines.next_line()).await??.context("the example has exited")?;
    let url = line.strip_prefix("listening on ").with_context(|| line.clone())?.replace("localhost", "127.0.0.1");

    let shop = Client::new(&url)?;
    let page = String::from_utf8(shop.get("/").await?.bytes)?;
    assert!(page.contains(&format!("UnifiedPayments(\"{}\")", merchant.account.publishable_key)), "{page}");
    assert!(!page.contains(&merchant.account.secret_key) && !page.contains("{{"), "{page}");
    let browser = Browser::for_account(cluster().await?, &merchant.account)?;
    for (card, text) in [("tok_ok", "paid"), ("tok_declined", "declined"), ("tok_partial", "not enough")] {
        let token = browser.token(card).await?;
        let response = shop.post("/pay", json!({"paymentToken": token})).await?;
        assert!(
            response.body["message"].as_str().is_some_and(|message| message.contains(text)),
            "{card}: {}",
            response.body
        );
    }
    Ok(())
}

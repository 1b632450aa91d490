//! The published signing examples, with the public libraries they use, against a real api.

use anyhow::{Context, Result};
use testkit::integration_examples::{Example, run};

use super::{customers, live};
use crate::support::cluster;

/// Runs an example as a new live merchant, and asserts that it creates a customer.
async fn assert_creates_a_customer(example: &Example) -> Result<()> {
    let merchant = live(cluster().await?).await?;
    let account = &merchant.account;
    let mut command = example.command();
    command
        .env("API_URL", merchant.api.base())
        .env("SECRET_KEY", &account.secret_key)
        .env("KEY_ID", &account.secret_key_id)
        .env("SIGNING_SECRET", account.signing_secret.as_deref().context("a signing secret")?);
    let output = run(command).await?;
    assert!(output.contains("201") && output.contains("ada@example.com"), "{output}");
    assert_eq!(customers(&merchant).await?, 1);
    Ok(())
}

#[tokio::test]
async fn the_python_example_is_accepted() -> Result<()> {
    match Example::in_python("signing", "sign.py").await? {
        Some(example) => assert_creates_a_customer(&example).await,
        None => Ok(()),
    }
}

#[tokio::test]
async fn the_node_example_is_accepted() -> Result<()> {
    match Example::in_node("signing", "sign.mjs").await? {
        Some(example) => assert_creates_a_customer(&example).await,
        None => Ok(()),
    }
}

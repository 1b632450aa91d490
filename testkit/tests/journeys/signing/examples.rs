//! The examples that merchants copy, with the public libraries they name, against a real api.

use anyhow::{Context, Result};
use testkit::examples::{Example, run};

use super::{customers, live};
use crate::support::cluster;

/// Runs an example as a new live merchant, who has one customer more by it.
async fn makes_a_customer(example: &Example) -> Result<()> {
    let merchant = live(cluster().await?).await?;
    let account = &merchant.account;
    let mut command = example.command();
    command
        .env("API_URL", merchant.api.base())
        .env("SECRET_KEY", &account.secret_key)
        .env("KEY_ID", &account.secret_key_id)
        .env("SIGNING_SECRET", account.signing_secret.as_deref().context("a signing secret")?);
    let said = run(command).await?;
    assert!(said.contains("201") && said.contains("ada@example.com"), "{said}");
    assert_eq!(customers(&merchant).await?, 1);
    Ok(())
}

#[tokio::test]
async fn the_example_in_python_is_accepted() -> Result<()> {
    match Example::in_python("signing", "sign.py").await? {
        Some(example) => makes_a_customer(&example).await,
        None => Ok(()),
    }
}

#[tokio::test]
async fn the_example_in_node_is_accepted() -> Result<()> {
    match Example::in_node("signing", "sign.mjs").await? {
        Some(example) => makes_a_customer(&example).await,
        None => Ok(()),
    }
}

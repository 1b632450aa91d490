//! `ctl`, the operators' command line, against real processes.

mod audit;
mod capacity;
mod doctor;
mod metrics;
mod mistakes;
mod output;
mod reconciliation;
mod replay;
mod requesting_keys;
mod resolve;
mod resolve_billing;
mod resolve_verified;
mod search;
mod statements;
mod verdicts;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use testkit::Cluster;

use crate::support::{Merchant, Receiver, Reply, created, eventually, id, uuid};

/// Makes the mock, in class C, lose its next `count` responses.
async fn lose_responses(merchant: &Merchant, cluster: &Cluster, count: &str) -> Result<()> {
    merchant.mock(cluster, &["--class", "C", "--lose-responses", count]).await
}

/// Waits until `count` operations of this merchant need manual review, and returns them.
async fn manual_reviews(cluster: &Cluster, merchant: &Merchant, count: usize) -> Result<Vec<Value>> {
    let waiting = "SELECT count(*) FROM operations
                   WHERE account_id = $1 AND state = 'unknown' AND next_push_at IS NULL";
    // Each start of ctl takes longer than many polls of this.
    eventually("operations that need manual review", async || {
        let found = sqlx::query_scalar::<_, i64>(waiting).bind(merchant.books.account);
        Ok((found.fetch_one(&merchant.books.db).await? == i64::try_from(count)?).then_some(()))
    })
    .await?;
    let listed = cluster.ctl(&["operations", "list", "--unknown", "--account", &merchant.account.id]).await?;
    let rows = listed["operations"].as_array().context("a list")?;
    let rows: Vec<_> = rows.iter().filter(|row| row["waits_for"] == "an operator").cloned().collect();
    assert_eq!(rows.len(), count, "{listed}");
    Ok(rows)
}

/// The only operation of this merchant that needs manual review.
async fn manual_review(cluster: &Cluster, merchant: &Merchant) -> Result<String> {
    Ok(text(&manual_reviews(cluster, merchant, 1).await?[0], "id"))
}

/// The mock's id of its last transaction with this reference.
async fn provider_ref(merchant: &Merchant, reference: &str) -> Result<String> {
    let query =
        sqlx::query_scalar("SELECT id FROM mock.transactions WHERE reference = $1 ORDER BY created_at DESC LIMIT 1");
    Ok(query.bind(reference).fetch_one(&merchant.books.db).await?)
}

/// Backdates the last request of an operation so far that it can no longer arrive at the provider.
async fn backdate_last_request(merchant: &Merchant, operation: &str) -> Result<()> {
    let query = sqlx::query("UPDATE operations SET last_sent_at = last_sent_at - interval '1 minute' WHERE id = $1");
    query.bind(uuid(operation)?).execute(&merchant.books.db).await?;
    Ok(())
}

/// The arguments of `ctl` that end an operation as failed, without a comparison with the provider.
fn resolve_as_failed<'a>(operation: &'a str, reason: &'a str) -> [&'a str; 8] {
    ["operations", "resolve", operation, "--unverified", "--outcome", "failed", "--reason", reason]
}

#[track_caller]
fn text(object: &Value, field: &str) -> String {
    object[field].as_str().unwrap_or_else(|| panic!("{field} of {object}")).to_owned()
}

/// A receiver that accepts every webhook, and the id of the merchant's endpoint for it.
async fn webhook_receiver(merchant: &Merchant) -> Result<(Receiver, String)> {
    let receiver = Receiver::start(|_| Reply::ok()).await?;
    let endpoint = merchant.api.post("/v1/webhook_endpoints", json!({"url": receiver.url("/hooks")})).await?;
    let endpoint = id(created(&endpoint))?;
    Ok((receiver, endpoint))
}

/// Runs `ctl`, which must fail, and returns its stderr.
async fn ctl_error(cluster: &Cluster, arguments: &[&str]) -> Result<String> {
    let output = cluster.ctl_output(arguments).await?;
    assert_ne!(output.code, 0, "{arguments:?} printed {}", output.stdout);
    assert!(!output.stderr.contains("panicked"), "{}", output.stderr);
    Ok(output.stderr)
}

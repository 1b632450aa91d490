//! What an operator sees and does with `ctl`, against real processes.

mod attribution;
mod audit;
mod books;
mod doctor;
mod figures;
mod finding;
mod growth;
mod printing;
mod replay;
mod resolve;
mod resolve_billing;
mod resolve_verified;
mod statements;
mod stories;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use testkit::Cluster;

use crate::support::{Merchant, Receiver, Reply, created, eventually, id, uuid};

/// Answers of the mock that are lost, in class C.
async fn answers_are_lost(merchant: &Merchant, cluster: &Cluster, count: &str) -> Result<()> {
    merchant.mock(cluster, &["--class", "C", "--lose-answer", count]).await
}

/// The operations of this merchant that wait for a person, when they are so many.
async fn waiting(cluster: &Cluster, merchant: &Merchant, count: usize) -> Result<Vec<Value>> {
    eventually("what waits for a person", async || {
        let listed = cluster.ctl(&["operations", "list", "--unknown", "--account", &merchant.account.id]).await?;
        let rows = listed["operations"].as_array().context("a list")?;
        let rows: Vec<_> = rows.iter().filter(|row| row["waits_for"] == "a person").cloned().collect();
        Ok((rows.len() == count).then_some(rows))
    })
    .await
}

/// The one operation of this merchant that waits for a person.
async fn the_waiting(cluster: &Cluster, merchant: &Merchant) -> Result<String> {
    Ok(text(&waiting(cluster, merchant, 1).await?[0], "id"))
}

/// What the mock calls the last thing that it did under this reference.
async fn at_provider(merchant: &Merchant, reference: &str) -> Result<String> {
    let named =
        sqlx::query_scalar("SELECT id FROM mock.transactions WHERE reference = $1 ORDER BY created_at DESC LIMIT 1");
    Ok(named.bind(reference).fetch_one(&merchant.books.db).await?)
}

/// The last request of an operation was sent so long ago that it can no longer arrive.
async fn nothing_may_arrive(merchant: &Merchant, operation: &str) -> Result<()> {
    let query = sqlx::query("UPDATE operations SET last_sent_at = last_sent_at - interval '1 minute' WHERE id = $1");
    query.bind(uuid(operation)?).execute(&merchant.books.db).await?;
    Ok(())
}

/// The text of a field.
#[track_caller]
fn text(object: &Value, field: &str) -> String {
    object[field].as_str().unwrap_or_else(|| panic!("{field} of {object}")).to_owned()
}

/// A receiver that takes everything, and the id of an endpoint of the merchant's there.
async fn listening(merchant: &Merchant) -> Result<(Receiver, String)> {
    let receiver = Receiver::start(|_| Reply::ok()).await?;
    let endpoint = merchant.api.post("/v1/webhook_endpoints", json!({"url": receiver.url("/hooks")})).await?;
    let endpoint = id(created(&endpoint))?;
    Ok((receiver, endpoint))
}

/// Runs `ctl` where it must refuse, and answers what it complains about.
async fn refused(cluster: &Cluster, arguments: &[&str]) -> Result<String> {
    let ended = cluster.ctl_to_its_end(arguments).await?;
    assert_ne!(ended.code, 0, "{arguments:?} printed {}", ended.printed);
    assert!(!ended.complaint.contains("panicked"), "{}", ended.complaint);
    Ok(ended.complaint)
}

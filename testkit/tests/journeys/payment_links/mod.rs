//! Payment links: what is kept and refused, where they stand, when they expire, and how they are paid.

mod clock;
mod expiry;
mod fields;
mod lists;
mod states;

use anyhow::Result;
use serde_json::{Value, json};
use testkit::Answer;

use crate::support::{Merchant, created, id, ok, uuid};

const LINKS: &str = "/v1/payment_links";
const UNKNOWN: &str = "plink_01ARZ3NDEKTSV4RRFFQ69G5FAV";

/// The least that makes a link.
fn wanted(amount: i64) -> Value {
    json!({"amount": amount, "currency": "USD"})
}

/// A new link.
async fn link(merchant: &Merchant) -> Result<Value> {
    Ok(created(&merchant.api.post(LINKS, wanted(500)).await?).clone())
}

/// The id of a new link.
async fn link_id(merchant: &Merchant) -> Result<String> {
    id(&link(merchant).await?)
}

/// Asks for a link to be cancelled.
async fn cancel(merchant: &Merchant, link: &str) -> Result<Answer> {
    merchant.api.send(reqwest::Method::POST, &format!("{LINKS}/{link}/cancel"), None).await
}

/// The link as it stands.
async fn shown(merchant: &Merchant, link: &str) -> Result<Value> {
    Ok(ok(&merchant.api.get(&format!("{LINKS}/{link}")).await?).clone())
}

/// Writes columns of a link by hand.
async fn set(merchant: &Merchant, link: &str, columns: &str) -> Result<(), sqlx::Error> {
    let statement = format!("UPDATE payment_links SET {columns} WHERE id = $1");
    let id = uuid(link).expect("an id");
    sqlx::query(sqlx::AssertSqlSafe(statement)).bind(id).execute(&merchant.books.db).await.map(drop)
}

/// Moves the whole life of a link so far back that its time was up a minute ago.
async fn time_is_up(merchant: &Merchant, link: &str) -> Result<()> {
    let long_ago = "created_at = created_at - interval '1 year', expires_at = now() - interval '1 minute',
                    expiry_due_at = CASE WHEN expiry_due_at IS NOT NULL THEN now() - interval '1 minute' END";
    Ok(set(merchant, link, long_ago).await?)
}

/// The events about a link, by name, oldest first.
async fn told(merchant: &Merchant, link: &str) -> Result<Vec<String>> {
    Ok(merchant.books.events(link).await?.into_iter().map(|(kind, _)| kind).collect())
}

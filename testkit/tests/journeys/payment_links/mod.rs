//! Payment links: fields, states, expiry, and the account clock.

mod clock;
mod expiry;
mod fields;
mod lists;
mod states;

use anyhow::Result;
use serde_json::{Value, json};
use testkit::Response;

use crate::support::{Merchant, created, id, ok, uuid};

const LINKS: &str = "/v1/payment_links";
const UNKNOWN: &str = "plink_01ARZ3NDEKTSV4RRFFQ69G5FAV";

/// A link body with only the required fields.
fn minimal(amount: i64) -> Value {
    json!({"amount": amount, "currency": "USD"})
}

async fn link(merchant: &Merchant) -> Result<Value> {
    Ok(created(&merchant.api.post(LINKS, minimal(500)).await?).clone())
}

async fn link_id(merchant: &Merchant) -> Result<String> {
    id(&link(merchant).await?)
}

async fn cancel(merchant: &Merchant, link: &str) -> Result<Response> {
    merchant.api.send(reqwest::Method::POST, &format!("{LINKS}/{link}/cancel"), None).await
}

async fn current(merchant: &Merchant, link: &str) -> Result<Value> {
    Ok(ok(&merchant.api.get(&format!("{LINKS}/{link}")).await?).clone())
}

/// Updates columns of a link directly.
async fn set(merchant: &Merchant, link: &str, columns: &str) -> Result<(), sqlx::Error> {
    let statement = format!("UPDATE payment_links SET {columns} WHERE id = $1");
    let id = uuid(link).expect("an id");
    sqlx::query(sqlx::AssertSqlSafe(statement)).bind(id).execute(&merchant.books.db).await.map(drop)
}

/// Backdates a link so that it expired a minute ago.
async fn expire(merchant: &Merchant, link: &str) -> Result<()> {
    let expired = "created_at = created_at - interval '1 year', expires_at = now() - interval '1 minute',
                    expiry_due_at = CASE WHEN expiry_due_at IS NOT NULL THEN now() - interval '1 minute' END";
    Ok(set(merchant, link, expired).await?)
}

/// The types of the events about a link, oldest first.
async fn event_types(merchant: &Merchant, link: &str) -> Result<Vec<String>> {
    Ok(merchant.books.events(link).await?.into_iter().map(|(kind, _)| kind).collect())
}

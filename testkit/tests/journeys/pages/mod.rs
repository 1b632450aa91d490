//! Payment pages of invoices and links: rendering, payment, and rejected input.

mod card_form;
mod documents;
mod expiry;
mod modifiers;
mod paying;
mod races;
mod refusals;
mod rendering;
mod renewals;

use anyhow::Result;
use serde_json::{Value, json};
use testkit::Cluster;

use crate::support::{Merchant, Payer, cluster, created, eventually, id, ok, uuid};

const LINKS: &str = "/v1/payment_links";
const INVOICES: &str = "/v1/invoices";

/// A new link, and a payer with its URL.
async fn link(merchant: &Merchant, amount: i64) -> Result<(Value, Payer)> {
    link_at(cluster().await?, merchant, amount).await
}

async fn link_at(cluster: &Cluster, merchant: &Merchant, amount: i64) -> Result<(Value, Payer)> {
    let response = merchant.api.post(LINKS, json!({"amount": amount, "currency": "USD"})).await?;
    let link = created(&response).clone();
    let payer = Payer::for_object(&link, &cluster.api_url(0))?;
    Ok((link, payer))
}

/// A new invoice, and a payer with its URL.
async fn invoice(merchant: &Merchant, amount: i64) -> Result<(Value, Payer)> {
    let customer = merchant.customer().await?;
    let body = json!({"customerId": customer, "currency": "USD", "amount": amount});
    let response = merchant.api.post(INVOICES, body).await?;
    let invoice = created(&response).clone();
    let payer = Payer::for_object(&invoice, &cluster().await?.api_url(0))?;
    Ok((invoice, payer))
}

async fn current(merchant: &Merchant, object: &Value) -> Result<Value> {
    let path = if object["object"] == "invoice" { INVOICES } else { LINKS };
    Ok(ok(&merchant.api.get(&format!("{path}/{}", id(object)?)).await?).clone())
}

/// The types of the events about an object, oldest first.
async fn event_types(merchant: &Merchant, object: &Value) -> Result<Vec<String>> {
    Ok(merchant.books.events(&id(object)?).await?.into_iter().map(|(kind, _)| kind).collect())
}

/// The mock's ledgers of all approved payments for an invoice or link, oldest first.
async fn ledgers(merchant: &Merchant, object: &Value) -> Result<Vec<String>> {
    let payments: Vec<uuid::Uuid> = sqlx::query_scalar(
        "SELECT id FROM payments WHERE account_id = $1 AND $2 IN (invoice_id, payment_link_id)
         AND provider_ref IS NOT NULL ORDER BY id",
    )
    .bind(merchant.books.account)
    .bind(uuid(&id(object)?)?)
    .fetch_all(&merchant.books.db)
    .await?;
    let mut ledgers = Vec::new();
    for payment in payments {
        ledgers.push(merchant.books.ledger(&crate::support::api_id("pay_", payment)).await?);
    }
    Ok(ledgers)
}

/// Waits until an invoice or link is in this status.
async fn wait_for_status(merchant: &Merchant, object: &Value, status: &str) -> Result<Value> {
    eventually(status, async || {
        let current = current(merchant, object).await?;
        Ok((current["status"] == status).then_some(current))
    })
    .await
}

/// Backdates a link so that it expired a minute ago, unless a payment for it is in progress.
async fn expire(merchant: &Merchant, link: &Value) -> Result<()> {
    sqlx::query(
        "UPDATE payment_links SET created_at = created_at - interval '1 year', expires_at = now() - interval '1 minute',
                expiry_due_at = CASE WHEN expiry_due_at IS NOT NULL THEN now() - interval '1 minute' END
         WHERE id = $1",
    )
    .bind(uuid(&id(link)?)?)
    .execute(&merchant.books.db)
    .await?;
    Ok(())
}

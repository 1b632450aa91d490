//! Automatic collection of invoices: schedules, attempts and their outcomes, cards, and races.

mod cards;
mod currencies;
mod held;
mod outcomes;
mod races;
mod runs;
mod schedule;

use anyhow::Result;
use serde_json::{Value, json};
use testkit::Response;

use crate::invoices::{get_invoice, post_action};
use crate::support::{Merchant, created, eventually, id, ok, uuid};

const INVOICES: &str = "/v1/invoices";
const RUN: &str = "/v1/invoices/scheduler/run";
/// A time in the past, so due at once.
const LONG_AGO: &str = "2020-01-01T00:00:00Z";
/// A time too far ahead to be reached by a test.
const FAR_FUTURE: &str = "2999-01-01T00:00:00Z";

/// The id of a new open invoice of this amount.
async fn invoice(merchant: &Merchant, customer: &str, amount: i64) -> Result<String> {
    let body = json!({"customerId": customer, "currency": "USD", "amount": amount});
    id(created(&merchant.api.post(INVOICES, body).await?))
}

/// The ids of a new customer and its only card, saved from this token.
async fn customer_with(merchant: &Merchant, token: &str) -> Result<(String, String)> {
    let customer = merchant.customer().await?;
    let card = id(created(&merchant.save_card(&customer, token).await?))?;
    Ok((customer, card))
}

/// Schedules an invoice with the default card.
async fn schedule(merchant: &Merchant, invoice: &str, collect_at: &str) -> Result<Response> {
    merchant.api.post(&format!("{INVOICES}/{invoice}/schedule"), json!({"collectAt": collect_at})).await
}

async fn run(merchant: &Merchant) -> Result<Response> {
    merchant.api.send(reqwest::Method::POST, RUN, None).await
}

/// Waits until the invoice has this status.
async fn wait_for_status(merchant: &Merchant, invoice: &str, status: &str) -> Result<Value> {
    eventually(status, async || {
        let invoice = get_invoice(merchant, invoice).await?;
        Ok((invoice["status"] == status).then_some(invoice))
    })
    .await
}

/// All attempts to collect an invoice.
async fn attempts(merchant: &Merchant, invoice: &str) -> Result<Vec<Value>> {
    let page = merchant.api.get(&format!("{INVOICES}/{invoice}/attempts?limit=100")).await?;
    assert_eq!(ok(&page)["hasMore"], false);
    Ok(page.body["data"].as_array().expect("a list").clone())
}

/// Waits until `count` attempts have ended and returns all attempts.
async fn ended_attempts(merchant: &Merchant, invoice: &str, count: usize) -> Result<Vec<Value>> {
    eventually("attempts", async || {
        let attempts = attempts(merchant, invoice).await?;
        let ended = attempts.iter().filter(|one| one["status"] == "succeeded" || one["status"] == "failed").count();
        Ok((ended == count).then_some(attempts))
    })
    .await
}

/// Makes the next attempt due now.
async fn make_due(merchant: &Merchant, invoice: &str) -> Result<()> {
    sqlx::query("UPDATE invoices SET next_attempt_at = now() WHERE id = $1 AND next_attempt_at IS NOT NULL")
        .bind(uuid(invoice)?)
        .execute(&merchant.books.db)
        .await?;
    Ok(())
}

/// The types of the events about an object, in the order of writing.
async fn event_types(merchant: &Merchant, object: &str) -> Result<Vec<String>> {
    Ok(merchant.books.events(object).await?.into_iter().map(|(kind, _)| kind).collect())
}

/// The mock's ledger of each approved payment of an invoice.
async fn ledger(merchant: &Merchant, invoice: &str) -> Result<Vec<String>> {
    let payments: Vec<uuid::Uuid> = sqlx::query_scalar(
        "SELECT id FROM payments WHERE account_id = $1 AND invoice_id = $2 AND provider_ref IS NOT NULL ORDER BY id",
    )
    .bind(merchant.books.account)
    .bind(uuid(invoice)?)
    .fetch_all(&merchant.books.db)
    .await?;
    let mut lines = vec![];
    for payment in payments {
        lines.push(merchant.books.ledger(&crate::support::api_id("pay_", payment)).await?);
    }
    Ok(lines)
}

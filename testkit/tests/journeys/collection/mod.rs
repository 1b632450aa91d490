//! Invoices that collect themselves: what is scheduled, how attempts end, what waits for another card, and races.

mod cards;
mod currencies;
mod held;
mod outcomes;
mod races;
mod runs;
mod schedule;
mod storm;

use anyhow::Result;
use serde_json::{Value, json};
use testkit::Answer;

use crate::support::{Merchant, created, eventually, id, ok, uuid};

const INVOICES: &str = "/v1/invoices";
const RUN: &str = "/v1/invoices/scheduler/run";
/// Long past, so due at once.
const LONG_AGO: &str = "2020-01-01T00:00:00Z";
/// Due when nobody reads this any more.
const IN_A_LONG_TIME: &str = "2999-01-01T00:00:00Z";

/// The id of a new invoice of this amount, open.
async fn invoice(merchant: &Merchant, customer: &str, amount: i64) -> Result<String> {
    let body = json!({"customerId": customer, "currency": "USD", "amount": amount});
    id(created(&merchant.api.post(INVOICES, body).await?))
}

/// The ids of a customer and of its only card, which came of this token.
async fn customer_with(merchant: &Merchant, token: &str) -> Result<(String, String)> {
    let customer = merchant.customer().await?;
    let card = id(created(&merchant.save_card(&customer, token).await?))?;
    Ok((customer, card))
}

/// Schedules an invoice with the default card.
async fn schedule(merchant: &Merchant, invoice: &str, collect_at: &str) -> Result<Answer> {
    merchant.api.post(&format!("{INVOICES}/{invoice}/schedule"), json!({"collectAt": collect_at})).await
}

/// Asks for something to be done to an invoice, without a body.
async fn ask(merchant: &Merchant, invoice: &str, what: &str) -> Result<Answer> {
    merchant.api.send(reqwest::Method::POST, &format!("{INVOICES}/{invoice}/{what}"), None).await
}

async fn run(merchant: &Merchant) -> Result<Answer> {
    merchant.api.send(reqwest::Method::POST, RUN, None).await
}

async fn shown(merchant: &Merchant, invoice: &str) -> Result<Value> {
    Ok(ok(&merchant.api.get(&format!("{INVOICES}/{invoice}")).await?).clone())
}

/// The invoice once it is in this status.
async fn becomes(merchant: &Merchant, invoice: &str, status: &str) -> Result<Value> {
    eventually(status, async || {
        let invoice = shown(merchant, invoice).await?;
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

/// The attempts when so many have ended.
async fn ended(merchant: &Merchant, invoice: &str, count: usize) -> Result<Vec<Value>> {
    eventually("attempts", async || {
        let attempts = attempts(merchant, invoice).await?;
        let ended = attempts.iter().filter(|one| one["status"] == "succeeded" || one["status"] == "failed").count();
        Ok((ended == count).then_some(attempts))
    })
    .await
}

/// The next attempt is due now, whatever was agreed.
async fn is_due(merchant: &Merchant, invoice: &str) -> Result<()> {
    sqlx::query("UPDATE invoices SET next_attempt_at = now() WHERE id = $1 AND next_attempt_at IS NOT NULL")
        .bind(uuid(invoice)?)
        .execute(&merchant.books.db)
        .await?;
    Ok(())
}

/// The kinds of the events about an object, as they were written.
async fn told(merchant: &Merchant, object: &str) -> Result<Vec<String>> {
    Ok(merchant.books.events(object).await?.into_iter().map(|(kind, _)| kind).collect())
}

/// What the mock approved for an invoice, by payment, and how that stands.
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
        lines.push(merchant.books.ledger(&crate::support::printed("pay_", payment)).await?);
    }
    Ok(lines)
}

//! E-mails to customers: what is sent to whom, and what mail servers do.

mod content;
mod servers;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::support::{Merchant, created, eventually, id, ok};

const ADA: &str = "ada@example.com";
const BOB: &str = "bob@elsewhere.example";

/// Turns every e-mail on, in this language. Only Ada is a test recipient.
async fn turn_on(merchant: &Merchant, language: &str) -> Result<()> {
    let turn_on = "INSERT INTO mail_settings (account_id, invoices, receipts, collections, language, test_recipients)
                   VALUES ($1, true, true, true, $2, ARRAY['Ada@Example.com'])";
    sqlx::query(turn_on).bind(merchant.books.account).bind(language).execute(&merchant.books.db).await?;
    Ok(())
}

/// The id of a new customer.
async fn customer(merchant: &Merchant, email: &str) -> Result<String> {
    id(created(&merchant.api.post("/v1/customers", json!({"email": email})).await?))
}

/// A new invoice, which is issued.
async fn invoice(merchant: &Merchant, customer: &str) -> Result<Value> {
    let body = json!({"customerId": customer, "currency": "EUR", "amount": 123_456, "description": "Roof <repair>"});
    Ok(created(&merchant.api.post("/v1/invoices", body).await?).clone())
}

/// What came of an e-mail.
#[derive(Debug, PartialEq, Eq, sqlx::FromRow)]
struct Mail {
    kind: String,
    outcome: Option<String>,
    reason: Option<String>,
    attempts: i32,
}

/// The e-mails of the account, oldest first.
async fn mails(merchant: &Merchant) -> Result<Vec<Mail>> {
    let all = sqlx::query_as("SELECT kind, outcome, reason, attempts FROM mails WHERE account_id = $1 ORDER BY id");
    Ok(all.bind(merchant.books.account).fetch_all(&merchant.books.db).await?)
}

/// Waits until this many e-mails have ended.
async fn ended(merchant: &Merchant, count: usize) -> Result<Vec<Mail>> {
    eventually("e-mails that have ended", async || {
        let mails = mails(merchant).await?;
        let ended = mails.iter().filter(|mail| mail.outcome.is_some()).count();
        Ok((ended == count && mails.len() == count).then_some(mails))
    })
    .await
}

/// Waits until the attempt is recorded, which failed, and makes the next one due.
async fn retry_after(merchant: &Merchant, attempt: i32) -> Result<()> {
    let due = "UPDATE mails SET due_at = now() WHERE account_id = $1 AND attempts = $2 AND reason IS NOT NULL";
    eventually("a failed attempt", async || {
        let due = sqlx::query(due).bind(merchant.books.account).bind(attempt).execute(&merchant.books.db).await?;
        Ok((due.rows_affected() == 1).then_some(()))
    })
    .await
}

/// The outcomes, with their reasons.
fn outcomes(mails: &[Mail]) -> Vec<(String, String, String)> {
    let text = |text: &Option<String>| text.as_deref().unwrap_or_default().to_owned();
    mails.iter().map(|mail| (mail.kind.clone(), text(&mail.outcome), text(&mail.reason))).collect()
}

/// The id of the event of this type about an object.
async fn event(merchant: &Merchant, kind: &str, object: &str) -> Result<String> {
    let page = merchant.api.get(&format!("/v1/events?type={kind}&objectId={object}")).await?;
    id(ok(&page)["data"].get(0).context("no event")?)
}

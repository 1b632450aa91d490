//! Invoices: what is kept and refused, what they come to, their numbers, and where they stand.

mod fields;
mod items;
mod lists;
mod numbers;
mod states;

use anyhow::Result;
use serde_json::{Value, json};
use testkit::Answer;
use uuid::Uuid;

use crate::support::{Merchant, created, ok, printed, uuid};

const INVOICES: &str = "/v1/invoices";
const UNKNOWN: &str = "inv_01ARZ3NDEKTSV4RRFFQ69G5FAV";

/// The least that makes an invoice.
fn owed(customer: &str, amount: i64) -> Value {
    json!({"customerId": customer, "currency": "USD", "amount": amount})
}

/// A row of an invoice.
fn row(description: &str, quantity: i64, unit_amount: i64) -> Value {
    json!({"description": description, "quantity": quantity, "unitAmount": unit_amount})
}

/// An invoice of these rows.
fn of_items(customer: &str, items: &[Value]) -> Value {
    json!({"customerId": customer, "currency": "USD", "items": items})
}

/// A new invoice, issued.
async fn invoice(merchant: &Merchant, customer: &str) -> Result<Value> {
    Ok(created(&merchant.api.post(INVOICES, owed(customer, 500)).await?).clone())
}

/// The id of a draft, written by hand: no route makes one yet.
async fn draft(merchant: &Merchant, customer: &str, terms: &str) -> Result<String> {
    let id: Uuid = sqlx::query_scalar(
        "INSERT INTO invoices (id, account_id, customer_id, currency, amount, payment_terms, page_token, created_at)
         VALUES (new_ulid(clock_timestamp()), $1, $2, 'USD', 500, $3::payment_terms, gen_random_uuid()::text,
                 clock_timestamp())
         RETURNING id",
    )
    .bind(merchant.books.account)
    .bind(uuid(customer)?)
    .bind(terms)
    .fetch_one(&merchant.books.db)
    .await?;
    Ok(printed("inv_", id))
}

/// Asks for something to be done to an invoice, without a body.
async fn ask(merchant: &Merchant, invoice: &str, what: &str) -> Result<Answer> {
    merchant.api.send(reqwest::Method::POST, &format!("{INVOICES}/{invoice}/{what}"), None).await
}

/// The invoice as it stands.
async fn shown(merchant: &Merchant, invoice: &str) -> Result<Value> {
    Ok(ok(&merchant.api.get(&format!("{INVOICES}/{invoice}")).await?).clone())
}

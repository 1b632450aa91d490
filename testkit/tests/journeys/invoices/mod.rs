//! Invoices: fields, items and totals, numbers, and states.

mod fields;
mod items;
mod lists;
mod numbers;
mod states;

use anyhow::Result;
use serde_json::{Value, json};
use testkit::Response;
use uuid::Uuid;

use crate::support::{Merchant, api_id, created, ok, uuid};

const INVOICES: &str = "/v1/invoices";
const UNKNOWN: &str = "inv_01ARZ3NDEKTSV4RRFFQ69G5FAV";

/// An invoice body with only the required fields.
fn minimal(customer: &str, amount: i64) -> Value {
    json!({"customerId": customer, "currency": "USD", "amount": amount})
}

pub(crate) fn row(description: &str, quantity: i64, unit_amount: i64) -> Value {
    json!({"description": description, "quantity": quantity, "unitAmount": unit_amount})
}

fn with_items(customer: &str, items: &[Value]) -> Value {
    json!({"customerId": customer, "currency": "USD", "items": items})
}

/// A new, issued invoice.
async fn invoice(merchant: &Merchant, customer: &str) -> Result<Value> {
    Ok(created(&merchant.api.post(INVOICES, minimal(customer, 500)).await?).clone())
}

/// The id of a draft, inserted directly: no route creates drafts yet.
pub(crate) async fn draft(merchant: &Merchant, customer: &str, terms: &str) -> Result<String> {
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
    Ok(api_id("inv_", id))
}

/// Posts an action (issue, void) of an invoice, without a body.
pub(crate) async fn post_action(merchant: &Merchant, invoice: &str, action: &str) -> Result<Response> {
    merchant.api.send(reqwest::Method::POST, &format!("{INVOICES}/{invoice}/{action}"), None).await
}

pub(crate) async fn get_invoice(merchant: &Merchant, invoice: &str) -> Result<Value> {
    Ok(ok(&merchant.api.get(&format!("{INVOICES}/{invoice}")).await?).clone())
}

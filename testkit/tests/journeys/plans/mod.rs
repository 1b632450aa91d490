//! Plans: fields, validation, and one plan per price.

mod deduplication;
mod fields;

use serde_json::{Value, json};

const PLANS: &str = "/v1/plans";

/// A monthly plan of this amount.
fn monthly(amount: i64) -> Value {
    json!({"name": "Gold", "amount": amount, "currency": "USD", "interval": "month"})
}

//! Plans: what is kept and refused, and that a price has one plan.

mod fields;
mod one_for_a_price;

use serde_json::{Value, json};

const PLANS: &str = "/v1/plans";

/// A plan of this amount, each month.
fn monthly(amount: i64) -> Value {
    json!({"name": "Gold", "amount": amount, "currency": "USD", "interval": "month"})
}

//! Addresses: what is kept, whose they are, and which ones are the defaults.

mod defaults;
mod fields;
mod lists;

use anyhow::Result;
use serde_json::{Value, json};
use testkit::Answer;

use crate::support::{Merchant, created, id};

const ADDRESSES: &str = "/v1/addresses";
const UNKNOWN: &str = "adr_01ARZ3NDEKTSV4RRFFQ69G5FAV";

/// The least that makes an address.
fn home(customer: &str) -> Value {
    json!({"customerId": customer, "line1": "1 Main St", "country": "US"})
}

/// The id of a new address.
async fn address(merchant: &Merchant, customer: &str) -> Result<String> {
    id(created(&merchant.api.post(ADDRESSES, home(customer)).await?))
}

/// Makes an address the default.
async fn make_default(merchant: &Merchant, address: &str, role: &str) -> Result<Answer> {
    merchant.api.post(&format!("{ADDRESSES}/{address}/default"), json!({"type": role})).await
}

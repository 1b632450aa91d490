//! Addresses: fields, ownership, lists and defaults.

mod defaults;
mod fields;
mod lists;

use anyhow::Result;
use serde_json::{Value, json};
use testkit::Response;

use crate::support::{Merchant, created, id};

const ADDRESSES: &str = "/v1/addresses";
const UNKNOWN: &str = "adr_01ARZ3NDEKTSV4RRFFQ69G5FAV";

/// The body of an address with the required fields only.
fn home(customer: &str) -> Value {
    json!({"customerId": customer, "line1": "1 Main St", "country": "US"})
}

/// Creates an address and returns its id.
async fn address(merchant: &Merchant, customer: &str) -> Result<String> {
    id(created(&merchant.api.post(ADDRESSES, home(customer)).await?))
}

/// Makes an address the default for a role.
async fn make_default(merchant: &Merchant, address: &str, role: &str) -> Result<Response> {
    merchant.api.post(&format!("{ADDRESSES}/{address}/default"), json!({"type": role})).await
}

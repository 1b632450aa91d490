//! Customers: fields, custom fields, the write-once external id, and deletion.

mod custom_fields;
mod deletion;
mod erasure;
mod external_id;
mod fields;

use serde_json::{Value, json};

const CUSTOMERS: &str = "/v1/customers";

fn ada() -> Value {
    json!({"email": "ada@example.com"})
}

fn field(name: &str, kind: &str, value: impl Into<Value>) -> Value {
    json!({"name": name, "type": kind, "value": value.into()})
}

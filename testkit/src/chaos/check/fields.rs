//! Fields of the API's objects.

use serde_json::Value;

pub(super) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field].as_str().unwrap_or_default()
}

pub(super) fn number(object: &Value, field: &str) -> i64 {
    object[field].as_i64().unwrap_or(0)
}

/// Whether money is captured or authorized.
pub(super) fn is_live(payment: &Value) -> bool {
    let live =
        ["authorized", "partially_authorized", "pending_settlement", "settled", "partially_refunded", "refunded"];
    live.contains(&text(payment, "status"))
}

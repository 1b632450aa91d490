//! The fields of an object of /v1, in words.

use domain::accounts::Mode;
use foundation::money::Money;
use maud::{Markup, html};
use serde_json::{Map, Value};

use crate::address::of_object;
use crate::texts::{self, label, message, minute, text, words_of, words_of_code};

/// An amount with its currency, if the object has both.
pub(crate) fn money(object: &Value, field: &str) -> Option<Money> {
    Some(Money { minor: object[field].as_i64()?, currency: object["currency"].as_str()?.parse().ok()? })
}

/// The same as a text; empty if the object has no such field.
pub(crate) fn amount(object: &Value, field: &str) -> String {
    money(object, field).map(texts::money).unwrap_or_default()
}

/// A time of /v1, to the minute, in UTC.
pub(crate) fn time(value: &Value) -> Markup {
    let Some(whole) = value.as_str() else { return html! {} };
    html! { time datetime=(whole) { (minute(whole).as_deref().unwrap_or(whole)) } }
}

/// The status of an object of this type as a badge.
pub(crate) fn status(object: &str, value: &Value) -> Markup {
    let Some(name) = value.as_str() else { return html! {} };
    let kind = match name {
        "declined" | "failed" | "past_due" | "lost" | "expired" | "disabled" => "bad",
        "pending_settlement" | "settled" | "succeeded" | "paid" | "active" | "won" | "completed" => "good",
        _ => "",
    };
    html! { span class={ "badge " (kind) } { (words_of(object, name)) } }
}

/// What the page shows in other ways, or what only programs need.
pub(crate) const HIDDEN: [&str; 4] = ["livemode", "object", "refunds", "version"];
/// What merchants have entered, which is shown as it is.
pub(crate) const MERCHANT_FIELDS: [&str; 2] = ["metadata", "customFields"];
/// Texts of which /v1 has a fixed number, besides those that are words in English as well. Types of events stay as they are.
const CODES: [&str; 8] =
    ["disabledReason", "failureReason", "interval", "mode", "paymentTerms", "pendingOperation", "type", "unit"];

/// The fields as a list of terms, those that are objects or lists after it.
pub(crate) fn fields(mode: Mode, object: &Map<String, Value>, context: &Value) -> Markup {
    let is_shown = |(name, value): &(&String, &Value)| !HIDDEN.contains(&name.as_str()) && !value.is_null();
    let (nested, plain): (Vec<_>, Vec<_>) =
        object.iter().filter(is_shown).partition(|(_, value)| value.is_object() || value.is_array());
    html! {
        dl {
            @for (name, value) in plain {
                dt { (label(name)) }
                dd { (field(mode, name, value, (object, context))) }
            }
        }
        @for (name, value) in nested { (section(mode, name, value, context)) }
    }
}

fn section(mode: Mode, name: &str, value: &Value, context: &Value) -> Markup {
    let items = value.as_array().map_or_else(|| std::slice::from_ref(value), Vec::as_slice);
    let is_empty = |item: &Value| item.as_object().is_some_and(Map::is_empty);
    if items.iter().all(is_empty) {
        return html! {};
    }
    html! {
        section {
            h2 { (label(name)) }
            @for item in items {
                @match item.as_object() {
                    Some(object) if MERCHANT_FIELDS.contains(&name) => {
                        dl { @for (name, value) in object { dt { (name) } dd { (value.as_str().map_or_else(|| value.to_string(), str::to_owned)) } } }
                    }
                    // The object of an event has a currency of its own.
                    Some(object) => { (fields(mode, object, if item["currency"].is_string() { item } else { context })) }
                    None => { p { (field(mode, name, item, (&Map::new(), context))) } }
                }
            }
        }
    }
}

/// A field of an object. `context` is the object that has the currency.
fn field(mode: Mode, name: &str, value: &Value, (object, context): (&Map<String, Value>, &Value)) -> Markup {
    let is_amount = name.starts_with("amount") || name == "unitAmount";
    match value {
        Value::Number(_) if is_amount => {
            let amounts = serde_json::json!({"amount": value, "currency": context["currency"]});
            html! { (amount(&amounts, "amount")) }
        }
        Value::Bool(value) => html! { (if *value { text("Yes") } else { text("No") }) },
        Value::String(_) if name == "status" => {
            status(object.get("object").and_then(Value::as_str).unwrap_or_default(), value)
        }
        Value::String(body) if name == "payload" => html! { code { (indented(body)) } },
        Value::String(_) if name.ends_with("At") || name.ends_with("Start") || name.ends_with("End") => time(value),
        Value::String(whole) => match of_object(mode, whole) {
            Some(address) if name != "id" => html! { a href=(address) { (whole) } },
            _ if name.ends_with("Code") || ["brand", "declineType", "reason"].contains(&name) => {
                html! { (words_of(name, whole)) }
            }
            _ if CODES.contains(&name) && !whole.contains('.') => html! { (words_of_code(name, whole)) },
            _ if name == "failureMessage" => html! { (message(whole)) },
            _ if name.ends_with("Date") => html! { (texts::day(whole)) },
            _ => html! { (whole) },
        },
        Value::Null | Value::Number(_) | Value::Array(_) | Value::Object(_) => html! { (value) },
    }
}

/// JSON with a line for each field; other texts as they are.
fn indented(body: &str) -> String {
    let value: Option<Value> = serde_json::from_str(body).ok();
    value.and_then(|value| serde_json::to_string_pretty(&value).ok()).unwrap_or_else(|| body.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_value_is_shown_and_escaped() {
        let payment = json!({
            "object": "payment", "id": "pay_1", "amount": 123_450, "currency": "USD", "status": "pending_settlement",
            "createdAt": "2026-01-30T22:05:06.789Z", "customerId": "cus_01KAJ4M2V8Q0S5T7W9X1Y3Z5A7", "settled": false, "description": "<b>&",
            "card": {"brand": "visa", "last4": "4242"}, "parts": [{"id": "ref_1", "amount": 100}], "metadata": {"size_of": "extra_large"}, "empty": {},
        });
        let shown = fields(Mode::Live, payment.as_object().expect("an object"), &payment).into_string();
        for part in [
            "<dd>USD 1,234.50</dd>",
            "<span class=\"badge good\">Approved</span>",
            "<time datetime=\"2026-01-30T22:05:06.789Z\">2026-01-30 22:05 UTC</time>",
            "<a href=\"/live/customers/cus_01KAJ4M2V8Q0S5T7W9X1Y3Z5A7\">cus_01KAJ4M2V8Q0S5T7W9X1Y3Z5A7</a>",
            "<dt>Settled</dt><dd>No</dd>",
            "&lt;b&gt;&amp;",
            "<h2>Card</h2>",
            "<dd>USD 1.00</dd>",
        ] {
            assert!(shown.contains(part), "{part} in {shown}");
        }
        assert!(shown.contains("<dt>size_of</dt><dd>extra_large</dd>"), "{shown}");
        assert!(!shown.contains("Empty"), "{shown}");
    }
}

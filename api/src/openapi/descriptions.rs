//! Every property of every object is described, also of objects within objects.

use serde_json::Value;

use crate::routes::endpoints;

/// Fields whose description explains each of their values.
const EXPLAINED: [&str; 7] =
    ["status", "state", "reason", "declineType", "failureCode", "failureReason", "disabledReason"];

/// Calls `visit` with the path, the name and the schema of each property below `value`.
fn properties(path: &str, value: &Value, visit: &mut impl FnMut(&str, &str, &Value)) {
    match value {
        Value::Object(map) => {
            for (key, nested) in map {
                properties(&format!("{path}/{key}"), nested, visit);
            }
            for (name, schema) in map.get("properties").and_then(Value::as_object).into_iter().flatten() {
                visit(&format!("{path}/{name}"), name, schema);
            }
        }
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                properties(&format!("{path}/{i}"), item, visit);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn is_amount(name: &str, schema: &Value) -> bool {
    let is_named = name.starts_with("amount") || matches!(name, "unitAmount" | "net");
    is_named && schema["type"].to_string().contains("integer")
}

#[test]
fn every_property_is_described() {
    let document = super::document(&endpoints(), "https://pay.example");
    let (mut seen, mut wrong) = (0, Vec::new());
    properties("", &document, &mut |path, name, schema| {
        seen += 1;
        let description = schema["description"].as_str().unwrap_or_default();
        if description.is_empty() {
            wrong.push(format!("{path} has no description"));
        }
        if is_amount(name, schema) && !description.contains("minor unit") {
            wrong.push(format!("{path} does not name its unit"));
        }
        let values = schema["enum"].as_array().or(schema[super::schemas::OPEN_ENUM].as_array());
        for value in values.into_iter().flatten().filter_map(Value::as_str) {
            if EXPLAINED.contains(&name) && !description.contains(&format!("`{value}`")) {
                wrong.push(format!("{path} does not explain {value}"));
            }
        }
    });
    assert!(seen > 700 && wrong.is_empty(), "{} of {seen}: {wrong:#?}", wrong.len());
}

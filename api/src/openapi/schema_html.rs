//! Renders JSON schemas as HTML table rows.

use serde_json::Value;

use super::markdown;
use super::schemas::OPEN_ENUM;
use crate::html::Text;

/// The length of the longest pattern that the page shows, in bytes.
const MAX_PATTERN: usize = 60;

/// Renders the fields of an object, one row each.
pub(super) fn rows(schema: &Value) -> String {
    let Some(properties) = schema["properties"].as_object().filter(|properties| !properties.is_empty()) else {
        return String::new();
    };
    // Required fields come first, in their serialization order.
    let names: Vec<_> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let place = |name: &String| names.iter().position(|required| required == name);
    let required = |name: &String| place(name).is_some();
    let mut properties: Vec<_> = properties.iter().collect();
    properties.sort_by_key(|(name, _)| place(name).unwrap_or(usize::MAX));
    let row = |(name, schema): (&String, &Value)| {
        let note = if required(name) { "" } else { "<br><span class=\"muted\">optional</span>" };
        format!("<tr><th><code>{}</code>{note}<td>{}\n", Text(name), field(schema, schema))
    };
    let rows: String = properties.into_iter().map(row).collect();
    format!("<div class=\"scroll\"><table>\n{rows}</table></div>\n")
}

/// Renders the type, limits and description of a field.
pub(super) fn field(described: &Value, schema: &Value) -> String {
    let description = described["description"].as_str().map(markdown::render).unwrap_or_default();
    let (kind, limits) = (kind(schema), limits(schema));
    format!("<p class=\"muted type\">{kind}{limits}</p>\n{description}")
}

fn kind(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        return format!("<a href=\"#schema-{name}\">{name}</a>");
    }
    if let Some(values) = schema["enum"].as_array().or(schema[OPEN_ENUM].as_array()) {
        let code = |value: &Value| format!("<code>{}</code>", Text(value.as_str().unwrap_or("null")));
        return values.iter().map(code).collect::<Vec<_>>().join(" ");
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        return choices.iter().map(kind).collect::<Vec<_>>().join(", or ");
    }
    match &schema["type"] {
        Value::String(name) if name == "array" => format!("a list of {}", kind(&schema["items"])),
        Value::String(name) if name == "object" => members(schema),
        Value::String(name) => name.clone(),
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => "anything".to_owned(),
    }
}

/// Renders a small object on one line.
fn members(schema: &Value) -> String {
    let properties = schema["properties"].as_object();
    let member = |(name, schema): (&String, &Value)| format!("<code>{}</code>: {}", Text(name), kind(schema));
    let members: Vec<_> = properties.into_iter().flatten().map(member).collect();
    if members.is_empty() { "object".to_owned() } else { format!("{{{}}}", members.join(", ")) }
}

fn limits(schema: &Value) -> String {
    let range = |low: &str, high: &str, of: &str| match (schema[low].as_i64(), schema[high].as_i64()) {
        (Some(low), Some(high)) => format!(", {low} to {high}{of}"),
        (Some(low), None) => format!(", at least {low}{of}"),
        (None, Some(high)) => format!(", up to {high}{of}"),
        (None, None) => String::new(),
    };
    let pattern = schema["pattern"].as_str().filter(|pattern| pattern.len() <= MAX_PATTERN);
    let pattern = pattern.map(|pattern| format!(", <code>{}</code>", Text(pattern))).unwrap_or_default();
    let default = schema.get("default").map(|value| format!(", default {value}")).unwrap_or_default();
    [
        range("minimum", "maximum", ""),
        range("minLength", "maxLength", " characters"),
        range("minItems", "maxItems", " items"),
        pattern,
        default,
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_shows_its_type_and_limits() {
        let schema =
            json!({"type": "integer", "minimum": 1, "maximum": 100, "default": 10, "description": "The size."});
        let html = field(&schema, &schema);
        assert_eq!(html, "<p class=\"muted type\">integer, 1 to 100, default 10</p>\n<p>The size.</p>\n");
    }
}

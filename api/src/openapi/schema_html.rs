//! Renders JSON schemas as HTML table rows.

use maud::{Markup, html};
use serde_json::Value;

use super::markdown;
use super::schemas::OPEN_ENUM;

/// The length of the longest pattern that the page shows, in bytes.
const MAX_PATTERN: usize = 60;

/// Renders the fields of an object, one row each.
pub(super) fn rows(schema: &Value) -> Markup {
    let Some(properties) = schema["properties"].as_object().filter(|properties| !properties.is_empty()) else {
        return Markup::default();
    };
    // Required fields come first, in their serialization order.
    let names: Vec<_> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let place = |name: &String| names.iter().position(|required| required == name);
    let mut properties: Vec<_> = properties.iter().collect();
    properties.sort_by_key(|(name, _)| place(name).unwrap_or(usize::MAX));
    html! {
        div.scroll { table {
            @for (name, schema) in properties {
                tr {
                    th {
                        code { (name) }
                        @if place(name).is_none() { br; span.muted { "optional" } }
                    }
                    td { (field(schema, schema)) }
                }
            }
        } }
    }
}

/// Renders the type, limits and description of a field.
pub(super) fn field(described: &Value, schema: &Value) -> Markup {
    html! {
        p.muted.type { (kind(schema)) (limits(schema)) }
        @if let Some(description) = described["description"].as_str() { (markdown::render(description)) }
    }
}

/// The name of the schema that a reference points to.
pub(super) fn name(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str()?.rsplit('/').next()
}

/// A link to a schema on the page.
pub(super) fn link(name: &str) -> Markup {
    html! { a href={ "#schema-" (name) } { (name) } }
}

fn kind(schema: &Value) -> Markup {
    if let Some(name) = name(schema) {
        return link(name);
    }
    if let Some(values) = schema["enum"].as_array().or(schema[OPEN_ENUM].as_array()) {
        return html! { @for value in values { code { (value.as_str().unwrap_or("null")) } " " } };
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        return separated(choices, ", or ", kind);
    }
    match &schema["type"] {
        Value::String(name) if name == "array" => html! { "a list of " (kind(&schema["items"])) },
        Value::String(name) if name == "object" => members(schema),
        Value::String(name) => html! { (name) },
        Value::Array(names) => separated(names, " or ", |name| html! { (name.as_str().unwrap_or_default()) }),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => html! { "anything" },
    }
}

/// Renders a small object on one line.
fn members(schema: &Value) -> Markup {
    let members: Vec<_> = schema["properties"].as_object().into_iter().flatten().collect();
    if members.is_empty() {
        return html! { "object" };
    }
    let member = |(name, schema): (&String, &Value)| html! { code { (name) } ": " (kind(schema)) };
    html! { "{" (separated(members, ", ", member)) "}" }
}

fn separated<T>(items: impl IntoIterator<Item = T>, separator: &str, render: impl Fn(T) -> Markup) -> Markup {
    html! {
        @for (i, item) in items.into_iter().enumerate() {
            @if i > 0 { (separator) }
            (render(item))
        }
    }
}

fn limits(schema: &Value) -> Markup {
    let range = |low: &str, high: &str, of: &str| match (schema[low].as_i64(), schema[high].as_i64()) {
        (Some(low), Some(high)) => format!(", {low} to {high}{of}"),
        (Some(low), None) => format!(", at least {low}{of}"),
        (None, Some(high)) => format!(", up to {high}{of}"),
        (None, None) => String::new(),
    };
    html! {
        (range("minimum", "maximum", ""))
        (range("minLength", "maxLength", " characters"))
        (range("minItems", "maxItems", " items"))
        @if let Some(pattern) = schema["pattern"].as_str().filter(|pattern| pattern.len() <= MAX_PATTERN) {
            ", " code { (pattern) }
        }
        @if let Some(default) = schema.get("default") { ", default " (default.to_string()) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_shows_its_type_and_limits() {
        let schema =
            json!({"type": "integer", "minimum": 1, "maximum": 100, "default": 10, "description": "The size."});
        let html = field(&schema, &schema).into_string();
        assert_eq!(html, "<p class=\"muted type\">integer, 1 to 100, default 10</p><p>The size.</p>\n");
    }
}

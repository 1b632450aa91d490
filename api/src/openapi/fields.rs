//! Schemas as rows of a table, in words.

use serde_json::Value;

/// A pattern longer than this is for programs.
const LONG: usize = 60;

/// Text within HTML.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Paragraphs, with what stands between backticks as code.
pub(super) fn prose(text: &str) -> String {
    let paragraph = |paragraph: &str| format!("<p>{}</p>\n", inline(paragraph));
    text.split("\n\n").filter(|paragraph| !paragraph.is_empty()).map(paragraph).collect()
}

/// One paragraph, without its tags.
pub(super) fn inline(text: &str) -> String {
    let part = |(i, part): (usize, &str)| {
        if i % 2 == 1 { format!("<code>{}</code>", escape(part)) } else { escape(part) }
    };
    text.split('`').enumerate().map(part).collect()
}

/// The fields of an object, a row each.
pub(super) fn rows(schema: &Value) -> String {
    let Some(properties) = schema["properties"].as_object().filter(|properties| !properties.is_empty()) else {
        return String::new();
    };
    // Those that are always there come first, in the order in which they are written.
    let names: Vec<_> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let place = |name: &String| names.iter().position(|required| required == name);
    let required = |name: &String| place(name).is_some();
    let mut properties: Vec<_> = properties.iter().collect();
    properties.sort_by_key(|(name, _)| place(name).unwrap_or(usize::MAX));
    let row = |(name, schema): (&String, &Value)| {
        let note = if required(name) { "" } else { "<br><span class=\"quiet\">optional</span>" };
        format!("<tr><th><code>{}</code>{note}<td>{}\n", escape(name), field(schema, schema))
    };
    let rows: String = properties.into_iter().map(row).collect();
    format!("<div class=\"scroll\"><table>\n{rows}</table></div>\n")
}

/// What a field is, and what is said of it.
pub(super) fn field(described: &Value, schema: &Value) -> String {
    let said = described["description"].as_str().map(inline).unwrap_or_default();
    let (kind, limits) = (kind(schema), limits(schema));
    format!("<span class=\"quiet words\">{kind}{limits}</span><br>{said}")
}

fn kind(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        return format!("<a href=\"#schema-{name}\">{name}</a>");
    }
    if let Some(words) = schema["enum"].as_array() {
        let shown = |word: &Value| format!("<code>{}</code>", escape(word.as_str().unwrap_or("null")));
        return words.iter().map(shown).collect::<Vec<_>>().join(" ");
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

/// A small object, on one line.
fn members(schema: &Value) -> String {
    let properties = schema["properties"].as_object();
    let shown = |(name, schema): (&String, &Value)| format!("<code>{}</code>: {}", escape(name), kind(schema));
    let members: Vec<_> = properties.into_iter().flatten().map(shown).collect();
    if members.is_empty() { "object".to_owned() } else { format!("{{{}}}", members.join(", ")) }
}

fn limits(schema: &Value) -> String {
    let range = |low: &str, high: &str, of: &str| match (schema[low].as_i64(), schema[high].as_i64()) {
        (Some(low), Some(high)) => format!(", {low} to {high}{of}"),
        (Some(low), None) => format!(", at least {low}{of}"),
        (None, Some(high)) => format!(", up to {high}{of}"),
        (None, None) => String::new(),
    };
    let pattern = schema["pattern"].as_str().filter(|pattern| pattern.len() <= LONG);
    let pattern = pattern.map(|pattern| format!(", <code>{}</code>", escape(pattern))).unwrap_or_default();
    let default = schema.get("default").map(|value| format!(", {value} if not said")).unwrap_or_default();
    [
        range("minimum", "maximum", ""),
        range("minLength", "maxLength", " characters"),
        range("minItems", "maxItems", " rows"),
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
    fn prose_is_escaped_and_its_code_is_marked() {
        assert_eq!(prose("a `<b>` & c\n\nd"), "<p>a <code>&lt;b&gt;</code> &amp; c</p>\n<p>d</p>\n");
    }

    #[test]
    fn a_field_says_its_kind_and_limits() {
        let schema =
            json!({"type": "integer", "minimum": 1, "maximum": 100, "default": 10, "description": "The size."});
        let said = field(&schema, &schema);
        assert_eq!(said, "<span class=\"quiet words\">integer, 1 to 100, 10 if not said</span><br>The size.");
    }
}

//! Custom fields of a customer: at most 20 rows `{name, type, value}`. An invalid row rejects the request; no row is
//! ever dropped.

use std::collections::HashSet;

use caseless::Caseless;
use serde_json::{Value, json};
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;
use utoipa::openapi::schema::{Array, ArrayBuilder, OneOfBuilder};
use utoipa::openapi::{KnownFormat, ObjectBuilder, SchemaFormat, Type};

use foundation::calendar::Date;
use foundation::error::{Error, Result};
use foundation::schema;

/// Maximum number of rows.
pub const MAX_ROWS: usize = 20;
const MAX_NAME: usize = 40;
const MAX_TEXT: usize = 500;
const MAX_NUMBER: usize = 50;

/// Validated rows.
#[derive(Debug, Default)]
pub struct CustomFields(Vec<Value>);

impl CustomFields {
    /// Parses the rows of a request.
    ///
    /// # Errors
    /// 422 `customFields[i]` for the first invalid row, or `customFields` if the value is not a list or too long.
    pub fn parse(rows: &Value) -> Result<Self> {
        let Some(rows) = rows.as_array() else {
            return Err(Error::invalid("customFields", "customFields must be a list of {name, type, value}"));
        };
        if rows.len() > MAX_ROWS {
            return Err(Error::invalid("customFields", format!("customFields must have at most {MAX_ROWS} rows")));
        }
        let mut names = HashSet::new();
        let mut checked = Vec::with_capacity(rows.len());
        for (i, row) in rows.iter().enumerate() {
            let (name, row) =
                check_row(row).map_err(|problem| Error::invalid(format!("customFields[{i}]"), problem))?;
            if !names.insert(folded(&name)) {
                return Err(Error::invalid(format!("customFields[{i}]"), "name must be unique"));
            }
            checked.push(row);
        }
        Ok(Self(checked))
    }

    /// Returns the rows as stored and as returned by the API.
    pub fn into_json(self) -> Value {
        Value::Array(self.0)
    }
}

/// The form in which names compare: of two names that differ only in case or composition, one is enough.
fn folded(name: &str) -> String {
    name.nfd().default_case_fold().nfd().collect()
}

/// A letter, then letters, marks, digits, spaces, underscores or hyphens. The pattern uses only syntax that every regex
/// dialect supports, so it accepts every printable non-ASCII character.
const NAME: &str = r"^[^\u0000-@\[-`{-\u009f][^\u0000-\u001f!-,./:-@\[-^`{-\u009f]*$";

schema::field_types! { pub Rows = schema(); }

/// The schema of the rows in requests and responses.
fn schema() -> Array {
    let text = || ObjectBuilder::new().schema_type(Type::String);
    let name = text()
        .min_length(Some(1))
        .max_length(Some(MAX_NAME))
        .pattern(Some(NAME))
        .description(Some(
            "A letter, then letters with their marks, digits, spaces, `_` or `-`. Letters of any script. Stored in \
             Unicode's form NFC. Unique, ignoring case.",
        ))
        .build();
    let row = |kind, value: ObjectBuilder, described| {
        let row = ["name", "type", "value"].into_iter().fold(ObjectBuilder::new(), ObjectBuilder::required);
        let kind = ObjectBuilder::from(schema::enumeration([kind])).description(Some("The type of the value."));
        row.property("name", name.clone()).property("type", kind).property("value", value.description(Some(described)))
    };
    let number = text().max_length(Some(MAX_NUMBER)).pattern(Some(r"^-?[0-9]+(\.[0-9]+)?$"));
    let date = text().format(Some(SchemaFormat::KnownFormat(KnownFormat::Date)));
    let rows = OneOfBuilder::new()
        .item(row("text", text().max_length(Some(MAX_TEXT)).pattern(Some(schema::NO_CONTROL)), "Any text."))
        .item(row("number", number, "A decimal number as text, which keeps all digits."))
        .item(row("boolean", ObjectBuilder::new().schema_type(Type::Boolean), "Yes or no."))
        .item(row("date", date, "A day."));
    ArrayBuilder::new().items(rows).max_items(Some(MAX_ROWS)).build()
}

fn check_row(row: &Value) -> Result<(String, Value), &'static str> {
    let row = row.as_object().ok_or("a row must be an object {name, type, value}")?;
    let text = |key: &str| row.get(key).and_then(Value::as_str);
    let name = text("name")
        .and_then(parse_name)
        .ok_or("name must be 1 to 40 characters: a letter, then letters, digits, spaces, underscores or hyphens")?;
    let kind = text("type").ok_or("type must be one of text, number, boolean, date")?;
    let value = row.get("value").ok_or("value is required")?;
    check_value(kind, value)?;
    let row = json!({"name": name, "type": kind, "value": value});
    Ok((name, row))
}

/// Returns a valid name in NFC, so that a name has one spelling.
fn parse_name(text: &str) -> Option<String> {
    let name: String = text.nfc().collect();
    let mut characters = name.chars();
    let is_valid = characters.next().is_some_and(|c| c.is_alphabetic() && !is_combining_mark(c))
        && characters
            .all(|c| c.is_alphabetic() || is_combining_mark(c) || c.is_ascii_digit() || matches!(c, ' ' | '_' | '-'))
        && name.chars().count() <= MAX_NAME;
    is_valid.then_some(name)
}

fn check_value(kind: &str, value: &Value) -> Result<(), &'static str> {
    let (is_valid, problem) = match kind {
        "text" => (
            value.as_str().is_some_and(|text| text.chars().count() <= MAX_TEXT && !text.chars().any(char::is_control)),
            "value must be a string of up to 500 characters without control characters",
        ),
        "number" => (
            value.as_str().is_some_and(is_decimal),
            "value must be a string with a decimal number, such as \"12\" or \"-3.14\", of up to 50 characters",
        ),
        "boolean" => (value.is_boolean(), "value must be true or false"),
        "date" => (
            value.as_str().is_some_and(|text| text.parse::<Date>().is_ok()),
            "value must be a calendar date in the format YYYY-MM-DD",
        ),
        _ => (false, "type must be one of text, number, boolean, date"),
    };
    if is_valid { Ok(()) } else { Err(problem) }
}

/// Accepts an optional `-`, digits and optional `.digits`; no exponent.
fn is_decimal(text: &str) -> bool {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = unsigned.split_once('.').map_or((unsigned, None), |(whole, rest)| (whole, Some(rest)));
    text.len() <= MAX_NUMBER && digits(whole) && fraction.is_none_or(digits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use testkit::fuzz::{anything, check, json};

    fn row(name: &str, kind: &str, value: Value) -> Value {
        json!([{"name": name, "type": kind, "value": value}])
    }

    fn param(rows: &Value) -> String {
        match CustomFields::parse(rows) {
            Err(Error::Invalid { param, .. }) => param.into_owned(),
            other => panic!("{rows} gave {other:?}"),
        }
    }

    #[test]
    fn valid_values_are_stored_unchanged() {
        let long = "x".repeat(500);
        let digits = "9".repeat(50);
        for (kind, value) in [
            ("text", json!("")),
            ("text", json!("é".repeat(500))),
            ("text", json!(long)),
            ("number", json!("12")),
            ("number", json!("-3.14")),
            ("number", json!("007")),
            ("number", json!(digits)),
            ("boolean", json!(false)),
            ("date", json!("2024-02-29")),
        ] {
            let rows = row("Size A-1_b", kind, value);
            assert_eq!(CustomFields::parse(&rows).expect("valid").into_json(), rows);
        }
    }

    #[test]
    fn invalid_values_are_rejected_by_row() {
        for (kind, value) in [
            ("text", json!("x".repeat(501))),
            ("text", json!("a\u{7}b")),
            ("text", json!("a\u{85}b")),
            ("text", json!(1)),
            ("number", json!(12)),
            ("number", json!("1e3")),
            ("number", json!("+1")),
            ("number", json!(".5")),
            ("number", json!("5.")),
            ("number", json!("-")),
            ("number", json!("")),
            ("number", json!("٣")),
            ("number", json!("9".repeat(51))),
            ("boolean", json!("true")),
            ("boolean", json!(null)),
            ("date", json!("2023-02-29")),
            ("date", json!("2023-2-01")),
            ("date", json!("20230201")),
            ("date", json!("2023-02-01T00:00")),
            ("colour", json!("red")),
        ] {
            assert_eq!(param(&row("a", kind, value)), "customFields[0]");
        }
    }

    #[test]
    fn names_are_validated_and_unique_ignoring_case() {
        for name in ["", "1a", " a", "-a", "a.b", &"x".repeat(41)] {
            assert_eq!(param(&row(name, "text", json!("v"))), "customFields[0]", "{name}");
        }
        let duplicate =
            json!([{"name": "Size", "type": "text", "value": "a"}, {"name": "sIZE", "type": "text", "value": "b"}]);
        assert_eq!(param(&duplicate), "customFields[1]");
    }

    #[test]
    fn names_compare_by_case_folding() {
        for (one, same) in [
            ("Stra\u{df}e", "STRASSE"),
            ("Gr\u{f6}\u{df}e", "GRO\u{308}SSE"),
            ("\u{3a3}\u{3af}\u{3c3}\u{3c5}\u{3c6}\u{3bf}\u{3c2}", "\u{3a3}\u{38a}\u{3a3}\u{3a5}\u{3a6}\u{39f}\u{3a3}"),
        ] {
            assert_eq!(folded(one), folded(same), "{one}");
        }
        assert_ne!(folded("i"), folded("\u{131}"), "the dotless i is another letter");
        for name in ["\u{308}o", "\u{93e}", "a\u{200d}b", "a\u{b2}", "a\u{665}"] {
            assert_eq!(param(&row(name, "text", json!("v"))), "customFields[0]", "{name}");
        }
    }

    #[test]
    fn only_lists_of_up_to_twenty_objects_are_accepted() {
        assert_eq!(param(&json!({})), "customFields");
        assert_eq!(param(&json!("x")), "customFields");
        assert_eq!(param(&json!([1])), "customFields[0]");
        let rows = |n: usize| {
            Value::Array((0..n).map(|i| json!({"name": format!("n{i}"), "type": "boolean", "value": true})).collect())
        };
        assert!(CustomFields::parse(&rows(20)).is_ok());
        assert_eq!(param(&rows(21)), "customFields");
    }

    #[test]
    fn rows_are_stored_unchanged_or_the_first_invalid_row_is_named() {
        let valid = json!([
            {"name": "Size", "type": "text", "value": "M"}, {"name": "Shoe", "type": "number", "value": "-41.5"},
            {"name": "VIP", "type": "boolean", "value": true}, {"name": "Born", "type": "date", "value": "1815-12-10"},
        ]);
        let sent = json(valid).prop_filter_map("not JSON", |text| serde_json::from_slice(&text).ok());
        check(prop_oneof![4 => sent, 1 => anything()], |rows: Value| match CustomFields::parse(&rows) {
            Ok(fields) => {
                let stored = fields.into_json();
                let (stored, sent) = (stored.as_array().expect("a list"), rows.as_array().expect("a list"));
                assert!(stored.len() == sent.len() && stored.len() <= MAX_ROWS);
                for (stored, sent) in stored.iter().zip(sent) {
                    assert_eq!(stored.as_object().expect("a row").len(), 3);
                    assert!(["type", "value"].iter().all(|key| stored[key] == sent[key]), "{stored} {sent}");
                    let name = sent["name"].as_str().expect("a name").nfc().collect::<String>();
                    assert_eq!(stored["name"], name);
                }
                assert!(CustomFields::parse(&Value::from(stored.clone())).is_ok());
            }
            Err(Error::Invalid { param, .. }) => {
                let row = param.strip_prefix("customFields").expect("the field").trim_matches(['[', ']']);
                let first_invalid = row.parse().map_or(0, |row: usize| row + 1);
                assert!(rows.as_array().is_none_or(|rows| first_invalid <= rows.len()), "{param}");
                // The rows before it are valid.
                let before = rows.as_array().map_or(&[][..], |rows| &rows[..first_invalid.saturating_sub(1)]);
                assert!(CustomFields::parse(&Value::from(before)).is_ok() || before.len() > MAX_ROWS, "{param}");
            }
            Err(other) => panic!("{other}"),
        });
    }
}

//! A JSON parser that rejects duplicate keys: which of the two values counts differs between parsers.

use std::fmt;

use foundation::card_number::excerpt;
use foundation::error::Error;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// A longer path names only its first levels.
const MAX_PATH: usize = 100;

/// Reads a document.
///
/// # Errors
/// 422 without a field if it is not JSON, or naming the first value that cannot be read or the first duplicate key.
pub(super) fn parse(bytes: &[u8]) -> Result<Value, Error> {
    let mut found = Found::default();
    let value = read(bytes, &mut found).map_err(|error| unreadable(bytes, found.failed.take(), &error))?;
    match found.duplicate {
        Some(param) => {
            let message = format!("{param} must be sent once");
            Err(Error::invalid(param, message))
        }
        None => Ok(value),
    }
}

/// The paths of all fields of a document, in its order.
pub(crate) fn paths(bytes: &[u8]) -> Vec<String> {
    let mut found = Found { paths: Some(Vec::new()), ..Found::default() };
    read(bytes, &mut found).map_or_else(|_| Vec::new(), |_| found.paths.unwrap_or_default())
}

fn read(bytes: &[u8], found: &mut Found) -> serde_json::Result<Value> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = Reader { path: &mut String::new(), found }.deserialize(&mut reader)?;
    reader.end().map(|()| value)
}

/// The error for a body with an unreadable value at the path `failed`. JSON in which only the values are unreadable
/// becomes readable when they are skipped.
fn unreadable(bytes: &[u8], failed: Option<String>, error: &serde_json::Error) -> Error {
    let is_json = serde_json::from_slice::<IgnoredAny>(bytes).is_ok();
    match failed.filter(|_| is_json) {
        Some(param) => {
            let message = format!("{param} cannot be read: a number out of range, invalid Unicode, or too many levels");
            Error::invalid(param, message)
        }
        None => Error::invalid("", format!("the body is not JSON: line {}, column {}", error.line(), error.column())),
    }
}

/// The path of a field of the object at `path`. The name is untrusted input, so it is sanitized.
pub(crate) fn field(path: &str, name: &str) -> String {
    let name = if name.is_empty() { "(empty name)".to_owned() } else { excerpt(name) };
    if path.is_empty() { name } else { format!("{path}.{name}") }
}

/// What a reader has found in a document.
#[derive(Default)]
struct Found {
    /// The path of the first value that could not be read.
    failed: Option<String>,
    /// The path of the first duplicate key.
    duplicate: Option<String>,
    /// The paths of the fields, if they are wanted.
    paths: Option<Vec<String>>,
}

/// Builds a value and records what it finds.
struct Reader<'a> {
    path: &'a mut String,
    found: &'a mut Found,
}

impl Reader<'_> {
    /// Reads a nested value at `path`.
    fn nested<T, E>(&mut self, path: String, read: impl FnOnce(Reader<'_>) -> Result<T, E>) -> Result<T, E> {
        let is_short = self.path.is_empty() || path.len() <= MAX_PATH;
        let path = if is_short { path } else { self.path.clone() };
        let outer = std::mem::replace(self.path, path);
        let result = read(Reader { path: &mut *self.path, found: &mut *self.found });
        let path = std::mem::replace(self.path, outer);
        if result.is_err() {
            self.found.failed.get_or_insert(path);
        }
        result
    }
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("not a number"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Value, A::Error> {
        let mut read = Vec::new();
        loop {
            let path = format!("{}[{}]", self.path, read.len());
            match self.nested(path, |reader| items.next_element_seed(reader))? {
                Some(item) => read.push(item),
                None => return Ok(Value::Array(read)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut fields: A) -> Result<Value, A::Error> {
        let mut read = Map::new();
        while let Some(key) = fields.next_key::<String>()? {
            let path = field(self.path, &key);
            if let Some(paths) = &mut self.found.paths {
                paths.push(path.clone());
            }
            let value = self.nested(path, |reader| fields.next_value_seed(reader))?;
            if read.contains_key(&key) {
                self.found.duplicate.get_or_insert_with(|| field(self.path, &key));
            }
            read.insert(key, value);
        }
        Ok(Value::Object(read))
    }
}

#[cfg(test)]
mod tests {
    use testkit::fuzz::{check, json as mutated};

    use super::*;

    fn param(bytes: &[u8]) -> String {
        match parse(bytes) {
            Err(Error::Invalid { param, .. }) => param.into_owned(),
            other => panic!("{other:?}"),
        }
    }

    fn duplicate_key(text: &str) -> String {
        param(text.as_bytes())
    }

    #[test]
    fn values_that_cannot_be_read_are_named() {
        let digits = "9".repeat(400);
        assert_eq!(param(format!(r#"{{"a": 1, "amount": {digits}}}"#).as_bytes()), "amount");
        assert_eq!(param(br#"{"items": [{}, {"unitAmount": -1e400}]}"#), "items[1].unitAmount");
        assert_eq!(param(br#"{"name": "\ud800", "amount": 1e400}"#), "name");
        assert_eq!(param(b"{\"name\": \"\xeb\"}"), "name");
        // Such a name of a field, or a body that is not JSON besides, has no path.
        assert_eq!(param(br#"{"\ud800": 1}"#), "");
        assert_eq!(param(br#"{"amount": 1e400, }"#), "");
        assert_eq!(param(br#"{"amount": 1e}"#), "");
        assert_eq!(param(br"1e400"), "");
    }

    #[test]
    fn duplicate_keys_are_rejected_at_any_depth() {
        assert_eq!(duplicate_key(r#"{"amount": 1, "amount": 1}"#), "amount");
        assert_eq!(duplicate_key(r#"{"a": [{}, {"b": {"c": null, "\u0063": 2}}]}"#), "a[1].b.c");
        assert_eq!(duplicate_key(r#"{"": 1, "": 1}"#), "(empty name)");
        let numeric = r#"{"4242424242424242": 1, "4242424242424242": 2}"#;
        assert_eq!(duplicate_key(numeric), "(number redacted)");
        // Invalid JSON is reported without a field.
        assert_eq!(duplicate_key(r#"{"a": 1, "a": 2"#), "");
        assert!(parse(br#"{"a": {"b": 1}, "b": [{"a": 1}, {"a": 1}]}"#).is_ok());
    }

    #[test]
    fn other_input_is_parsed_like_serde_json() {
        let whole = serde_json::json!({"a": [1, -1, 1.5, 1e300, "x", true, null, {"b": {}}], "c": 18_446_744_073_709_551_615_u64});
        check(mutated(whole), |bytes| match (parse(&bytes), serde_json::from_slice::<Value>(&bytes)) {
            (Ok(read), Ok(expected)) => assert_eq!(read, expected),
            (Err(Error::Invalid { message, .. }), Err(_)) => {
                assert!(message.contains("not JSON") || message.contains("cannot be read"), "{message}");
            }
            (Err(Error::Invalid { message, .. }), Ok(_)) => {
                assert!(message.ends_with("must be sent once"), "{message}")
            }
            (read, expected) => panic!("{read:?} {expected:?}"),
        });
    }
}

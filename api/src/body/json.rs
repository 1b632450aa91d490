//! A JSON parser that rejects duplicate keys: which of the two values counts differs between parsers.

use std::fmt;

use foundation::card_number::excerpt;
use foundation::error::Error;
use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Reads a document.
///
/// # Errors
/// 422 without a field if it is not JSON, or naming the first duplicate key.
pub(super) fn parse(bytes: &[u8]) -> Result<Value, Error> {
    let (mut path, mut duplicate) = (String::new(), None);
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let read = Reader { path: &mut path, duplicate: &mut duplicate }.deserialize(&mut reader);
    let value = read.and_then(|value| reader.end().map(|()| value)).map_err(|error| {
        Error::invalid("", format!("the body is not JSON: line {}, column {}", error.line(), error.column()))
    })?;
    match duplicate {
        Some(param) => {
            let message = format!("{param} must be sent once");
            Err(Error::invalid(param, message))
        }
        None => Ok(value),
    }
}

/// The path of a field of the object at `path`. The name is untrusted input, so it is sanitized.
pub(crate) fn field(path: &str, name: &str) -> String {
    let name = if name.is_empty() { "(empty name)".to_owned() } else { excerpt(name) };
    if path.is_empty() { name } else { format!("{path}.{name}") }
}

/// Builds a value and records the path of the first duplicate key.
struct Reader<'a> {
    path: &'a mut String,
    duplicate: &'a mut Option<String>,
}

impl Reader<'_> {
    /// Reads a nested value at `path`.
    fn nested<T>(&mut self, path: String, read: impl FnOnce(Reader<'_>) -> T) -> T {
        let outer = std::mem::replace(self.path, path);
        let result = read(Reader { path: &mut *self.path, duplicate: &mut *self.duplicate });
        *self.path = outer;
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
            let value = self.nested(path, |reader| fields.next_value_seed(reader))?;
            if read.contains_key(&key) {
                self.duplicate.get_or_insert_with(|| field(self.path, &key));
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

    fn duplicate_key(text: &str) -> String {
        match parse(text.as_bytes()) {
            Err(Error::Invalid { param, .. }) => param.into_owned(),
            other => panic!("{text}: {other:?}"),
        }
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
            (Err(Error::Invalid { param, .. }), Err(_)) => assert_eq!(param, ""),
            (Err(Error::Invalid { message, .. }), Ok(_)) => {
                assert!(message.ends_with("must be sent once"), "{message}")
            }
            (read, expected) => panic!("{read:?} {expected:?}"),
        });
    }
}

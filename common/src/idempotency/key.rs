//! The header: what a key may be, and which bodies are the same.

use serde_json::Value;

use crate::crypto::sha256;
use crate::error::{Error, Result};

/// Characters of a key at most.
pub const MAX_KEY: usize = 255;

/// A key with the hash of the body it came with.
#[derive(Clone, Debug)]
pub struct IdempotencyKey {
    key: String,
    request_hash: [u8; 32],
}

impl IdempotencyKey {
    /// Reads the header. Bodies are compared as parsed JSON: neither order nor white space counts.
    ///
    /// # Errors
    /// 422 naming `Idempotency-Key` if it is empty, too long or not visible ASCII.
    pub fn parse(key: &[u8], body: &Value) -> Result<Self> {
        let visible = (1..=MAX_KEY).contains(&key.len()) && key.iter().all(u8::is_ascii_graphic);
        match std::str::from_utf8(key) {
            // A map of serde_json is ordered by key, so equal bodies print alike.
            Ok(key) if visible => Ok(Self { key: key.to_owned(), request_hash: sha256(body.to_string().as_bytes()) }),
            _ => Err(Error::invalid("Idempotency-Key", "Idempotency-Key must be 1 to 255 visible ASCII characters")),
        }
    }

    /// The key as it was sent.
    pub fn text(&self) -> &str {
        &self.key
    }

    /// What tells its body from others.
    pub fn request_hash(&self) -> &[u8] {
        &self.request_hash
    }

    /// The refusal of a key that came with another body before.
    pub fn of_another_body() -> Error {
        Error::invalid("Idempotency-Key", "Idempotency-Key was used with another body; a new request needs a new key")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use proptest::prelude::*;
    use proptest::sample::Index;
    use testkit::fuzz::{anything, check, mutated_bytes, noise};

    #[test]
    fn keys_are_visible_ascii_of_bounded_length() {
        let body = json!({});
        assert!(IdempotencyKey::parse(b"a", &body).is_ok());
        assert!(IdempotencyKey::parse("~".repeat(255).as_bytes(), &body).is_ok());
        for bad in ["", " ", "a b", "a\t", "é", &"x".repeat(256)] {
            assert!(IdempotencyKey::parse(bad.as_bytes(), &body).is_err(), "{bad}");
        }
    }

    #[test]
    fn bodies_are_compared_as_json() {
        let hash = |text: &str| {
            let body = serde_json::from_str(text).expect("JSON");
            IdempotencyKey::parse(b"k", &body).expect("a key").request_hash
        };
        assert_eq!(hash(r#"{"a": 1, "b": {"x": 2, "y": 3}}"#), hash(r#"{"b":{"y":3,"x":2},"a":1}"#));
        assert_ne!(hash(r#"{"a": 1}"#), hash(r#"{"a": 2}"#));
    }

    #[test]
    fn a_key_is_visible_ascii_or_the_header_is_named() {
        check(prop_oneof![mutated_bytes("order-1"), mutated_bytes("k".repeat(254)), noise()], |bytes| {
            let good = (1..=MAX_KEY).contains(&bytes.len()) && bytes.iter().all(|byte| (0x21..0x7f).contains(byte));
            match IdempotencyKey::parse(&bytes, &json!({})) {
                Ok(key) => assert!(good && key.key.as_bytes() == &*bytes),
                Err(Error::Invalid { param, .. }) => assert!(!good && param == "Idempotency-Key"),
                Err(other) => panic!("{other}"),
            }
        });
    }

    #[test]
    fn a_body_is_the_same_in_any_order_of_its_fields_and_no_other_is() {
        let hash = |body: &Value| IdempotencyKey::parse(b"k", body).expect("a key").request_hash;
        check((anything(), anything(), any::<Index>()), |(one, other, turn)| {
            assert_eq!(one == other, hash(&one) == hash(&other), "{one} {other}");
            let Value::Object(fields) = &one else { return };
            // The same texts of numbers on both sides: what a float is printed as need not be read as that float.
            let one: Value = serde_json::from_str(&one.to_string()).expect("JSON");
            let mut printed: Vec<_> = fields.iter().map(|(key, value)| format!("{}: {value}", json!(key))).collect();
            let turn = if printed.is_empty() { 0 } else { turn.index(printed.len()) };
            printed.rotate_left(turn);
            let turned: Value = serde_json::from_str(&format!("{{ {} }}", printed.join(" , "))).expect("JSON");
            assert_eq!(hash(&turned), hash(&one));
        });
    }
}

//! The `Idempotency-Key` header and the comparison of request bodies.

use serde_json::Value;

use foundation::crypto::sha256;
use foundation::error::{Error, Result};

/// Maximum length of a key.
pub const MAX_KEY: usize = 255;

/// A key with the hash of its request body.
#[derive(Clone, Debug)]
pub struct IdempotencyKey {
    key: String,
    request_hash: [u8; 32],
}

impl IdempotencyKey {
    /// Parses the header. Bodies are compared as JSON, regardless of field order and white space.
    ///
    /// # Errors
    /// 422 naming `Idempotency-Key` if it is empty, too long or not visible ASCII.
    pub fn parse(key: &[u8], body: &Value) -> Result<Self> {
        let visible = (1..=MAX_KEY).contains(&key.len()) && key.iter().all(u8::is_ascii_graphic);
        match std::str::from_utf8(key) {
            // A map of serde_json is sorted by key, so equal bodies have the same text.
            Ok(key) if visible => Ok(Self { key: key.to_owned(), request_hash: sha256(body.to_string().as_bytes()) }),
            _ => Err(Error::invalid("Idempotency-Key", "Idempotency-Key must be 1 to 255 visible ASCII characters")),
        }
    }

    pub fn text(&self) -> &str {
        &self.key
    }

    /// The hash of the request body.
    pub fn request_hash(&self) -> &[u8] {
        &self.request_hash
    }

    /// The error for a key that was used with another body.
    pub fn used_with_another_body() -> Error {
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
    fn invalid_keys_are_rejected_naming_the_header() {
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
    fn bodies_are_equal_in_any_field_order_and_no_others_are() {
        let hash = |body: &Value| IdempotencyKey::parse(b"k", body).expect("a key").request_hash;
        check((anything(), anything(), any::<Index>()), |(one, other, rotation)| {
            assert_eq!(one == other, hash(&one) == hash(&other), "{one} {other}");
            let Value::Object(fields) = &one else { return };
            // Both sides use the same number texts: a printed float need not parse as the same float.
            let one: Value = serde_json::from_str(&one.to_string()).expect("JSON");
            let mut printed: Vec<_> = fields.iter().map(|(key, value)| format!("{}: {value}", json!(key))).collect();
            let rotation = if printed.is_empty() { 0 } else { rotation.index(printed.len()) };
            printed.rotate_left(rotation);
            let rotated: Value = serde_json::from_str(&format!("{{ {} }}", printed.join(" , "))).expect("JSON");
            assert_eq!(hash(&rotated), hash(&one));
        });
    }
}

//! The text of a capture field's token. It says what it is good for and is signed under the account's own secret, so that
//! whoever has that secret can check it without asking anybody.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use common::crypto::{Secret, hex, hmac_sha256, random_hex};
use common::time::Timestamp;
use serde::Serialize;

use crate::cards::Face;
use crate::cards::vault::FIELD_PREFIX;

/// What a token says of itself, under short names.
#[derive(Serialize)]
struct Payload {
    /// What makes it unguessable and unlike any other.
    n: String,
    /// When it was issued, in whole seconds.
    i: i64,
    /// When it expires, in whole seconds: never after it does.
    e: i64,
    /// The brand, in lower case.
    b: String,
    /// The last four digits.
    l: String,
    /// The month in which the card ends.
    m: u8,
    /// And the year.
    y: u16,
}

/// A new token for a card, signed under the 16 characters of its account.
pub(super) fn sign(secret_key: &Secret<String>, face: &Face, issued: Timestamp, expires: Timestamp) -> String {
    let payload = Payload {
        n: random_hex(16),
        i: issued.as_millisecond().div_euclid(1_000),
        e: expires.as_millisecond().div_euclid(1_000),
        b: face.brand.name().to_lowercase(),
        l: face.last_four().to_owned(),
        m: face.expiry.month(),
        y: face.expiry.year(),
    };
    let json = serde_json::to_string(&payload).expect("texts and numbers are JSON");
    let text = format!("{FIELD_PREFIX}{}", BASE64_URL_SAFE_NO_PAD.encode(json));
    let signature = hmac_sha256(secret_key.expose().as_bytes(), text.as_bytes());
    format!("{text}.{}", hex(&signature))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cards::{Brand, Expiry};

    #[test]
    fn a_token_tells_its_card_and_fits() {
        let at = |ms| Timestamp::from_millisecond(ms).expect("in range");
        let secret = Secret::new("0123456789abcdef".to_owned());
        for brand in Brand::ALL {
            let expiry = Expiry::parse("09", "2034").expect("a month");
            let face = Face { brand, masked: "XXXXXXXXXXXX4242".to_owned(), expiry };
            let token = sign(&secret, &face, at(1_800_000_000_999), at(1_800_001_800_999));
            assert!(token.len() <= 300, "{token}");
            let (text, signature) = token.split_once('.').expect("a signature");
            assert_eq!(signature, hex(&hmac_sha256(b"0123456789abcdef", text.as_bytes())));
            let json = BASE64_URL_SAFE_NO_PAD.decode(&text[FIELD_PREFIX.len()..]).expect("base64");
            let payload: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
            let nonce = payload["n"].as_str().expect("a nonce").to_owned();
            assert_eq!(nonce.len(), 32);
            let expected = serde_json::json!({"n": nonce, "i": 1_800_000_000, "e": 1_800_001_800,
                "b": brand.name().to_lowercase(), "l": "4242", "m": 9, "y": 2034});
            assert_eq!(payload, expected);
        }
    }
}

//! The text of a card field's token. It describes the card and is signed under the account's secret key, so that the
//! holder of that key can verify it without a request.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use foundation::crypto::{Secret, hex, hmac_sha256, random_hex};
use foundation::time::Timestamp;
use serde::Serialize;

use crate::cards::MaskedCard;
use crate::cards::vault::FIELD_PREFIX;

/// The token's payload.
#[derive(Serialize)]
struct Payload {
    /// A random nonce.
    n: String,
    /// Issued at, in whole seconds.
    i: i64,
    /// Expires at, in whole seconds, rounded down.
    e: i64,
    /// The brand in lower case.
    b: String,
    /// The last four digits.
    l: String,
    /// Expiration month of the card.
    m: u8,
    /// Expiration year of the card.
    y: u16,
}

/// A new token for a card, signed under the account's 16-character secret key.
pub(super) fn sign(
    secret_key: &Secret<String>,
    masked_card: &MaskedCard,
    issued: Timestamp,
    expires: Timestamp,
) -> String {
    let payload = Payload {
        n: random_hex(16),
        i: issued.as_millisecond().div_euclid(1_000),
        e: expires.as_millisecond().div_euclid(1_000),
        b: masked_card.brand.name().to_lowercase(),
        l: masked_card.last_four().to_owned(),
        m: masked_card.expiry.month(),
        y: masked_card.expiry.year(),
    };
    let json = serde_json::to_string(&payload).expect("strings and numbers serialize to JSON");
    let text = format!("{FIELD_PREFIX}{}", BASE64_URL_SAFE_NO_PAD.encode(json));
    let signature = hmac_sha256(secret_key.expose().as_bytes(), text.as_bytes());
    format!("{text}.{}", hex(&signature))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cards::{Brand, Expiry};

    #[test]
    fn a_token_describes_its_card_within_300_characters() {
        let at = |ms| Timestamp::from_millisecond(ms).expect("in range");
        let secret = Secret::new("0123456789abcdef".to_owned());
        for brand in Brand::ALL {
            let expiry = Expiry::parse("09", "2034").expect("a month");
            let masked_card = MaskedCard { brand, masked: "XXXXXXXXXXXX4242".to_owned(), expiry };
            let token = sign(&secret, &masked_card, at(1_800_000_000_999), at(1_800_001_800_999));
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

//! The token that the gateway's card field gives a browser. It contains the displayable details of the card and is
//! signed with the account's secret key, so it can be verified without a request (docs/gateway.md, What browsers use).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use subtle::ConstantTimeEq;

use super::Credentials;
use crate::Card;
use foundation::crypto::{Secret, hex, hmac_sha256};
use foundation::time::Timestamp;

/// The prefix of every field token.
pub const PREFIX: &str = "fld_";
/// Maximum length of a token.
const MAX_LENGTH: usize = 300;

/// The contents of a token.
#[derive(Clone, Debug)]
pub struct FieldToken {
    /// When it was created, by the gateway's clock.
    pub issued_at: Timestamp,
    /// When the gateway deletes it, by its clock.
    pub expires_at: Timestamp,
    pub card: Card,
}

#[derive(Deserialize)]
struct Payload {
    i: i64,
    e: i64,
    b: String,
    l: String,
    m: i16,
    y: i16,
}

impl FieldToken {
    /// Verifies and reads a token of this account's card field; `None` for any other text. A token signed with the
    /// previous secret key must have been created before that key ended. An attacker who knows the previous key can
    /// forge that time but gains nothing: the gateway has the card and knows the tokens that it created.
    pub fn verify(text: &str, account: &Credentials) -> Option<Self> {
        let (signed, signature) = text.rsplit_once('.').filter(|_| text.len() <= MAX_LENGTH)?;
        let is_under = |secret: &Secret<String>| -> bool {
            let expected = hex(&hmac_sha256(secret.expose().as_bytes(), signed.as_bytes()));
            expected.as_bytes().ct_eq(signature.as_bytes()).into()
        };
        if is_under(&account.secret_key) {
            return Self::read(signed);
        }
        let until = account.former_keys_until.filter(|_| account.former_secret_key.as_ref().is_some_and(is_under))?;
        Self::read(signed).filter(|token| token.issued_at <= until)
    }

    fn read(signed: &str) -> Option<Self> {
        let json = URL_SAFE_NO_PAD.decode(signed.strip_prefix(PREFIX)?).ok()?;
        let Payload { i, e, b, l, m, y } = serde_json::from_slice(&json).ok()?;
        let at = |seconds: i64| Timestamp::from_millisecond(seconds.checked_mul(1000)?);
        let card = Card { brand: b, last4: l, exp_month: m, exp_year: y };
        card.is_valid().then_some(Self { issued_at: at(i)?, expires_at: at(e)?, card })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;
    use testkit::fuzz::{changed, check, json, texts};

    fn account(secret: &str) -> Credentials {
        let (api_key, secret_key) = (Secret::new("k".to_owned()), Secret::new(secret.to_owned()));
        Credentials { username: "shop".into(), api_key, secret_key, former_secret_key: None, former_keys_until: None }
    }

    fn signed(payload: &str, secret: &str) -> String {
        let text = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(payload));
        let signature = hex(&hmac_sha256(secret.as_bytes(), text.as_bytes()));
        format!("{text}.{signature}")
    }

    const SECRET: &str = "0123456789abcdef";
    const PAYLOAD: &str = r#"{"n":"00","i":1800000000,"e":1800001800,"b":"visa","l":"4242","m":12,"y":2034}"#;

    #[test]
    fn only_tokens_of_the_account_are_accepted() {
        let text = signed(PAYLOAD, SECRET);
        let token = FieldToken::verify(&text, &account(SECRET)).expect("genuine");
        assert_eq!(token.issued_at.as_millisecond(), 1_800_000_000_000);
        assert_eq!(token.expires_at.as_millisecond(), 1_800_001_800_000);
        let card = Card { brand: "visa".into(), last4: "4242".into(), exp_month: 12, exp_year: 2034 };
        assert_eq!(token.card, card);
        assert!(FieldToken::verify(&text, &account("another--account")).is_none());
        for end in 1..text.len() {
            assert!(FieldToken::verify(&text[..end], &account(SECRET)).is_none(), "{end}");
        }
        let other = PAYLOAD.replace("4242", "4243");
        let moved = format!("{PREFIX}{}.{}", URL_SAFE_NO_PAD.encode(other), text.rsplit_once('.').expect("signed").1);
        assert!(FieldToken::verify(&moved, &account(SECRET)).is_none());
        let long = signed(&PAYLOAD.replace("00", &"0".repeat(300)), SECRET);
        assert!(FieldToken::verify(&long, &account(SECRET)).is_none(), "longer than any genuine token");
        for invalid in ["", "fld_", "fld_.", "tok_ok", "\u{e9}.\u{e9}"] {
            assert!(FieldToken::verify(invalid, &account(SECRET)).is_none(), "{invalid}");
        }
    }

    #[test]
    fn tokens_of_the_previous_key_are_accepted_if_created_before_its_end() {
        let text = signed(PAYLOAD, SECRET);
        let rotated = |former: Option<&str>, until: i64| Credentials {
            former_secret_key: former.map(|secret| Secret::new(secret.to_owned())),
            former_keys_until: Timestamp::from_millisecond(until),
            ..account("another--account")
        };
        assert!(FieldToken::verify(&text, &rotated(Some(SECRET), 1_800_000_000_000)).is_some());
        assert!(
            FieldToken::verify(&text, &rotated(Some(SECRET), 1_799_999_999_999)).is_none(),
            "created after the end"
        );
        assert!(FieldToken::verify(&text, &rotated(Some("0123456789abcdeg"), 1_800_000_000_000)).is_none());
        assert!(FieldToken::verify(&text, &rotated(None, 1_800_000_000_000)).is_none());
        let ended_at_once = Credentials { former_keys_until: None, ..rotated(Some(SECRET), 0) };
        assert!(FieldToken::verify(&text, &ended_at_once).is_none());
    }

    #[test]
    fn tokens_with_a_changed_character_are_rejected() {
        let text = signed(PAYLOAD, SECRET);
        check((prop_oneof![changed(text.as_str()), texts()], changed(SECRET)), |(other, secret)| {
            assert!(FieldToken::verify(&other, &account(SECRET)).is_none(), "{other}");
            // HMAC pads a key with zeros, so zeros at its end do not matter. An account's secret key has 16 characters.
            let other = secret.trim_end_matches('\0') != SECRET;
            assert!(!other || FieldToken::verify(&text, &account(&secret)).is_none(), "{secret}");
        });
    }

    /// Even the payload of a valid signature may be anything: another release of the gateway may have signed it.
    #[test]
    fn any_signed_payload_is_valid_or_rejected() {
        let payload: serde_json::Value = serde_json::from_str(PAYLOAD).expect("JSON");
        check(json(payload), |payload| {
            let text = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(&*payload));
            let signature = hex(&hmac_sha256(SECRET.as_bytes(), text.as_bytes()));
            if let Some(token) = FieldToken::verify(&format!("{text}.{signature}"), &account(SECRET)) {
                assert!(token.card.is_valid(), "{:?}", token.card);
            }
        });
    }
}

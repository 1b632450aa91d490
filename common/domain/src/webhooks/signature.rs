//! The signature of a delivery as Standard Webhooks defines it, so that its libraries can verify it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use foundation::crypto::{Secret, hmac_sha256};

/// The prefix of every secret.
pub const SECRET_PREFIX: &str = "whsec_";

/// The `webhook-signature` header: one signature per secret, separated by spaces. `None` if there is no secret or one
/// is malformed, because a receiver may expect any one of the signatures.
pub fn sign(secrets: &[Secret<String>], id: &str, timestamp_s: i64, body: &str) -> Option<String> {
    let signed = format!("{id}.{timestamp_s}.{body}");
    let signature = |secret: &Secret<String>| {
        let key = STANDARD.decode(secret.expose().strip_prefix(SECRET_PREFIX)?).ok()?;
        let key = (!key.is_empty()).then_some(key)?;
        Some(format!("v1,{}", STANDARD.encode(hmac_sha256(&key, signed.as_bytes()))))
    };
    let signatures: Vec<_> = secrets.iter().map(signature).collect::<Option<_>>()?;
    (!signatures.is_empty()).then(|| signatures.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use testkit::fuzz::{changed, check, texts};

    /// The expected value comes from the Python package `standardwebhooks`.
    #[test]
    fn signature_matches_another_implementation() {
        let secret = |text: &str| Secret::new(text.to_owned());
        let one = secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
        let body = r#"{"test": 2432232314}"#;
        let signature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        let sign = |secrets: &[_]| sign(secrets, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body);
        assert_eq!(sign(std::slice::from_ref(&one)).as_deref(), Some(signature));
        let two = sign(&[one.clone(), secret("whsec_AAAA")]).expect("two secrets");
        assert_eq!(two.split(' ').count(), 2);
        assert!(two.starts_with(signature));
        assert_eq!(sign(&[one, secret("garbage")]), None, "one signature would be missing");
        assert_eq!(sign(&[]), None);
        assert_eq!(sign(&[secret("whsec_")]), None, "an empty key protects nothing");
    }

    #[test]
    fn any_change_changes_the_signature() {
        let secret = |bytes: &[u8]| Secret::new(format!("{SECRET_PREFIX}{}", STANDARD.encode(bytes)));
        let (id, body) = ("evt_01KAJ4M2V8Q0S5T7W9X1Y3Z5A7", r#"{"type":"invoice.paid"}"#);
        let keys = vec(any::<u8>(), 24..64);
        check((keys, any::<u32>(), changed(id), changed(body)), |(key, at, other_id, other_body)| {
            let at = i64::from(at);
            let secrets = [secret(&key)];
            let signature = sign(&secrets, id, at, body);
            assert_eq!(signature, sign(&secrets, id, at, body));
            assert!(
                !other_id.contains('.') && sign(&secrets, &other_id, at, body) != signature || other_id.contains('.')
            );
            assert_ne!(sign(&secrets, id, at, &other_body), signature);
            assert_ne!(sign(&secrets, id, at + 1, body), signature);
            let other_key: Vec<u8> = key.iter().map(|byte| byte ^ 1).collect();
            assert_ne!(sign(&[secret(&other_key)], id, at, body), signature);
        });
    }

    #[test]
    fn a_malformed_secret_signs_nothing() {
        check(texts(), |text| {
            let signature = sign(&[Secret::new(text.clone())], "evt_1", 1, "{}");
            assert!(text.starts_with(SECRET_PREFIX) || signature.is_none(), "{text}");
        });
    }
}

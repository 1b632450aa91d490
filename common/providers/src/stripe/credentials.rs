//! The keys of an account at Stripe.

use serde::Deserialize;

use crate::credentials::{Stored, place};
use foundation::crypto::{KeyRing, Secret};
use foundation::id::{AccountId, ProviderAccountId};

#[derive(Clone, Debug)]
pub struct Credentials {
    /// `rk_…`, a restricted key, or `sk_…`.
    pub secret_key: Secret<String>,
    /// `pk_…`, for Stripe's card field in browsers.
    pub publishable_key: String,
    /// `whsec_…`, with which Stripe signs its events; `None` if it sends none.
    pub webhook_secret: Option<Secret<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    secret_key: String,
    publishable_key: String,
    webhook_secret: Option<String>,
}

impl Stored for Credentials {
    /// Parses the JSON object `{secret_key, publishable_key, webhook_secret}`, whose keys are of the same mode.
    fn parse(json: &str) -> Option<Self> {
        let Fields { secret_key, publishable_key, webhook_secret } = serde_json::from_str(json).ok()?;
        let mode = |mode: &str| {
            let of = |prefix: &str, key: &str| {
                let rest = key.strip_prefix(prefix).and_then(|rest| rest.strip_prefix(mode));
                rest.is_some_and(|rest| {
                    !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
                })
            };
            (of("rk_", &secret_key) || of("sk_", &secret_key)) && of("pk_", &publishable_key)
        };
        let signed = webhook_secret.as_ref().is_none_or(|secret| secret.starts_with("whsec_") && secret.len() > 6);
        ((mode("test_") || mode("live_")) && signed).then(|| Self {
            secret_key: Secret::new(secret_key),
            publishable_key,
            webhook_secret: webhook_secret.map(Secret::new),
        })
    }
}

impl Credentials {
    /// Whether they move real money.
    pub fn livemode(&self) -> bool {
        self.publishable_key.starts_with("pk_live_")
    }

    /// Encrypts them for the row of the provider account.
    pub fn seal(&self, key: &KeyRing, owner: AccountId, account: ProviderAccountId) -> Vec<u8> {
        let json = serde_json::json!({
            "secret_key": self.secret_key.expose(), "publishable_key": self.publishable_key,
            "webhook_secret": self.webhook_secret.as_ref().map(Secret::expose),
        });
        key.seal(&json.to_string(), &place(owner, account))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_of_one_mode_and_never_displayed() {
        let parse = |secret: &str, publishable: &str, webhook: Option<&str>| {
            let json =
                serde_json::json!({"secret_key": secret, "publishable_key": publishable, "webhook_secret": webhook});
            Credentials::parse(&json.to_string())
        };
        let keys = parse("rk_test_canary1", "pk_test_2", Some("whsec_canary3")).expect("credentials");
        assert!(!keys.livemode() && !format!("{keys:?}").contains("canary"));
        assert!(parse("sk_live_1", "pk_live_2", None).expect("credentials").livemode());
        for (secret, publishable, webhook) in [
            ("sk_live_1", "pk_test_2", None),
            ("pk_test_1", "pk_test_2", None),
            ("sk_test_", "pk_test_2", None),
            ("sk_test_1\n", "pk_test_2", None),
            ("sk_test_1", "sk_test_2", None),
            ("sk_test_1", "pk_test_2", Some("secret")),
        ] {
            assert!(parse(secret, publishable, webhook).is_none(), "{secret} {publishable} {webhook:?}");
        }
    }
}

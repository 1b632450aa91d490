//! The credentials of our accounts at the gateway.

use serde::Deserialize;

use crate::credentials::{Stored as _, place};
use foundation::crypto::{KeyRing, Secret};
use foundation::id::{AccountId, ProviderAccountId};
use foundation::time::Timestamp;

#[derive(Clone, Debug)]
pub struct Credentials {
    pub username: String,
    pub api_key: Secret<String>,
    /// The 16 characters with which the gateway signs the tokens that browsers submit.
    pub secret_key: Secret<String>,
    /// The previous secret key, with which the gateway signs tokens for pages that still use the previous keys.
    pub former_secret_key: Option<Secret<String>>,
    /// Until when it does so, by the gateway's clock.
    pub former_keys_until: Option<Timestamp>,
}

#[derive(Deserialize)]
struct Fields {
    username: String,
    api_key: String,
    secret_key: String,
    former_secret_key: Option<String>,
    former_keys_until: Option<String>,
}

impl crate::credentials::Stored for Credentials {
    /// Parses the JSON object `{username, api_key, secret_key}`, with `former_keys_until` after a rotation; `None` for
    /// anything else.
    fn parse(json: &str) -> Option<Self> {
        let stored: Fields = serde_json::from_str(json).ok()?;
        let Fields { username, api_key, secret_key, former_secret_key, former_keys_until } = stored;
        let complete = !username.is_empty() && !api_key.is_empty() && secret_key.len() == 16;
        let former_keys_until = match former_keys_until {
            Some(text) => Some(Timestamp::parse(&text)?),
            None => None,
        };
        complete.then(|| Self {
            username,
            api_key: Secret::new(api_key),
            secret_key: Secret::new(secret_key),
            former_secret_key: former_secret_key.map(Secret::new),
            former_keys_until,
        })
    }
}

impl Credentials {
    /// Keeps what is still needed of the credentials that these replace. Connecting the same credentials again changes
    /// nothing.
    #[must_use]
    pub fn replacing(self, former: Self) -> Self {
        if former.secret_key.expose() == self.secret_key.expose() {
            let Self { former_secret_key, former_keys_until, .. } = former;
            return Self { former_secret_key, former_keys_until, ..self };
        }
        Self { former_secret_key: Some(former.secret_key), ..self }
    }

    /// Encrypts them for the row of the provider account.
    pub fn seal(&self, key: &KeyRing, owner: AccountId, account: ProviderAccountId) -> Vec<u8> {
        let json = serde_json::json!({
            "username": self.username, "api_key": self.api_key.expose(), "secret_key": self.secret_key.expose(),
            "former_secret_key": self.former_secret_key.as_ref().map(Secret::expose),
            "former_keys_until": self.former_keys_until.map(|until| until.to_string()),
        });
        key.seal(&json.to_string(), &place(owner, account))
    }

    /// Decrypts what [`Self::seal`] returned; `None` if no key opens it.
    pub fn open(key: &KeyRing, sealed: &[u8], owner: AccountId, account: ProviderAccountId) -> Option<Self> {
        key.open(sealed, &place(owner, account)).and_then(|json| Self::parse(json.expose()))
    }

    /// The account's public key in a browser: MD5 of the user name and the secret key, as the gateway's contract
    /// specifies.
    pub fn field_key(&self) -> String {
        use md5::{Digest as _, Md5};
        let digest = Md5::new().chain_update(&self.username).chain_update(self.secret_key.expose()).finalize();
        foundation::crypto::hex(&digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foundation::clock::Clock;
    use foundation::crypto::EncryptionKey;
    use testkit::fuzz::{check, json};

    fn key(byte: &str) -> KeyRing {
        KeyRing::new(EncryptionKey::from_hex(&byte.repeat(32)).expect("a key"), vec![])
    }

    fn owner(account: ProviderAccountId) -> AccountId {
        AccountId::from_uuid(account.uuid())
    }

    #[test]
    fn incomplete_credentials_are_rejected() {
        let json = r#"{"username":"shop","api_key":"k","secret_key":"0123456789abcdef","app_key":"x"}"#;
        let parsed = Credentials::parse(json).expect("credentials");
        assert_eq!(format!("{parsed:?}").matches("[secret]").count(), 2);
        // printf 'shop0123456789abcdef' | md5sum
        assert_eq!(parsed.field_key(), "d8b95871952c9e2523bf3a1b696f3dbc");
        let until = r#"{"username":"shop","api_key":"k","secret_key":"0123456789abcdef","former_keys_until":"soon"}"#;
        for broken in ["", "{}", "[]", r#"{"username":"shop","api_key":"k","secret_key":"short"}"#, until] {
            assert!(Credentials::parse(broken).is_none(), "{broken}");
        }
    }

    #[test]
    fn only_the_previous_secret_key_is_kept() {
        let with = |secret: &str, until: &str| {
            let json = serde_json::json!({
                "username": "shop", "api_key": "k", "secret_key": secret.repeat(16), "former_keys_until": until,
            });
            Credentials::parse(&json.to_string()).expect("credentials")
        };
        let former_keys = |credentials: &Credentials| {
            let former = credentials.former_secret_key.as_ref().map(|secret| secret.expose()[..1].to_owned());
            (former, credentials.former_keys_until.map(|until| until.to_string()))
        };
        let account = ProviderAccountId::new(Clock::system().now());
        let stored = |credentials: &Credentials| {
            let sealed = credentials.seal(&key("00"), owner(account), account);
            let json = key("00").open(&sealed, &place(owner(account), account)).expect("its own");
            Credentials::parse(json.expose()).expect("credentials")
        };
        let (one, two) = ("2026-01-01T00:00:00.000Z", "2026-01-02T00:00:00.000Z");
        let second = stored(&with("b", one).replacing(with("a", two)));
        assert_eq!(former_keys(&second), (Some("a".to_owned()), Some(one.to_owned())));
        let again = stored(&with("b", two).replacing(second.clone()));
        assert_eq!(former_keys(&again), former_keys(&second), "the same ones");
        let third = stored(&with("c", two).replacing(second));
        assert_eq!(former_keys(&third), (Some("b".to_owned()), Some(two.to_owned())));
    }

    #[test]
    fn any_input_is_valid_or_rejected_and_secrets_are_not_displayed() {
        let valid = serde_json::json!({"username": "shop", "api_key": "canary-api", "secret_key": "0123456789abcdef"});
        check(json(valid), |text| {
            let Ok(text) = String::from_utf8(text.0) else { return };
            let Some(read) = Credentials::parse(&text) else { return };
            assert!(
                !read.username.is_empty() && !read.api_key.expose().is_empty() && read.secret_key.expose().len() == 16
            );
            let debug = format!("{read:?}");
            assert_eq!(debug.matches("[secret]").count(), 2, "{debug}");
            assert!(read.username.contains("canary") || !debug.contains("canary"), "{debug}");
        });
    }
}

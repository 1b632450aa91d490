//! By what the gateway knows an account of ours. At rest it is encrypted; a process remembers it for a moment.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize;
use sqlx::{PgExecutor, PgPool};

use crate::crypto::{KeyRing, Secret};
use crate::error::{Error, Result};
use crate::id::ProviderAccountId;
use crate::providers::Fault;
use crate::time::Timestamp;

/// How long what was read is believed.
const BELIEVED_FOR: Duration = Duration::from_secs(5);
/// How long it does while nothing can be read. What was changed meanwhile would be refused, and that ends a first request.
const DOES_FOR: Duration = Duration::from_secs(10 * 60);
/// Accounts remembered at most; at that many the memory is begun anew.
const MOST: usize = 10_000;

/// What an operator was given for an account at the gateway.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// Names the account.
    pub username: String,
    /// Proves that it is ours.
    pub api_key: Secret<String>,
    /// The 16 characters under which the gateway signs what browsers bring.
    pub secret_key: Secret<String>,
    /// Those before them: under these it signs for pages that still name the keys of then.
    pub former_secret_key: Option<Secret<String>>,
    /// Until when it does, by its clock.
    pub former_keys_until: Option<Timestamp>,
}

#[derive(Deserialize)]
struct Stored {
    username: String,
    api_key: String,
    secret_key: String,
    former_secret_key: Option<String>,
    former_keys_until: Option<String>,
}

impl Credentials {
    /// From the JSON object `{username, api_key, secret_key}`, with `former_keys_until` after a rotation; none if it is anything
    /// else.
    pub fn parse(json: &str) -> Option<Self> {
        let stored: Stored = serde_json::from_str(json).ok()?;
        let Stored { username, api_key, secret_key, former_secret_key, former_keys_until } = stored;
        let whole = !username.is_empty() && !api_key.is_empty() && secret_key.len() == 16;
        let former_keys_until = match former_keys_until {
            Some(text) => Some(Timestamp::parse(&text)?),
            None => None,
        };
        whole.then(|| Self {
            username,
            api_key: Secret::new(api_key),
            secret_key: Secret::new(secret_key),
            former_secret_key: former_secret_key.map(Secret::new),
            former_keys_until,
        })
    }

    /// With what is to be remembered of those that they replace. Connecting the same ones again changes nothing.
    #[must_use]
    pub fn replacing(self, former: Self) -> Self {
        if former.secret_key.expose() == self.secret_key.expose() {
            let Self { former_secret_key, former_keys_until, .. } = former;
            return Self { former_secret_key, former_keys_until, ..self };
        }
        Self { former_secret_key: Some(former.secret_key), ..self }
    }

    /// Encrypted, in the context of the provider account.
    pub fn seal(&self, key: &KeyRing, account: ProviderAccountId) -> Vec<u8> {
        let json = serde_json::json!({
            "username": self.username, "api_key": self.api_key.expose(), "secret_key": self.secret_key.expose(),
            "former_secret_key": self.former_secret_key.as_ref().map(Secret::expose),
            "former_keys_until": self.former_keys_until.map(|until| until.to_string()),
        });
        key.seal(&json.to_string(), &account.to_string())
    }

    /// By what the gateway knows the account in a browser: MD5 of its name and its secret, as the contract has it.
    pub fn field_key(&self) -> String {
        use md5::{Digest as _, Md5};
        let digest = Md5::new().chain_update(&self.username).chain_update(self.secret_key.expose()).finalize();
        crate::crypto::hex(&digest)
    }
}

/// What is stored for an account; none if nothing is.
///
/// # Errors
/// The database's; [`Error::Internal`] for what cannot be decrypted.
pub async fn read(db: impl PgExecutor<'_>, key: &KeyRing, account: ProviderAccountId) -> Result<Option<Credentials>> {
    let sealed = sqlx::query_scalar!("SELECT credentials FROM provider_accounts WHERE id = $1", account.uuid())
        .fetch_optional(db)
        .await?
        .flatten();
    let Some(sealed) = sealed else { return Ok(None) };
    let opened = key.open(&sealed, &account.to_string()).and_then(|json| Credentials::parse(json.expose()));
    let unreadable = || Error::internal(format!("the credentials of {account} cannot be decrypted"));
    opened.map(Some).ok_or_else(unreadable)
}

/// Credentials as one process knows them.
pub(super) struct Remembered {
    db: PgPool,
    key: KeyRing,
    known: Mutex<HashMap<ProviderAccountId, (Instant, Arc<Credentials>)>>,
}

impl Remembered {
    pub(super) fn new(db: PgPool, key: KeyRing) -> Self {
        Self { db, key, known: Mutex::default() }
    }

    /// # Errors
    /// [`Fault::NotProcessed`] without them: nothing can be sent. [`Fault::Unknown`] if our database does not tell: that says
    /// nothing of the request, which is to be looked up and sent later.
    pub(super) async fn of(&self, account: ProviderAccountId) -> std::result::Result<Arc<Credentials>, Fault> {
        let lacking = |why: String| Fault::credentials(format!("the credentials of {account}: {why}"));
        let remembered = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&account).cloned();
        let read_within = |time: Duration| remembered.clone().filter(|(read_at, _)| read_at.elapsed() < time);
        if let Some((_, known)) = read_within(BELIEVED_FOR) {
            return Ok(known);
        }
        let read_at = Instant::now();
        let read = match read(&self.db, &self.key, account).await {
            Ok(read) => Arc::new(read.ok_or_else(|| lacking("there are none".to_owned()))?),
            Err(Error::Database(error)) => {
                let unread = || Fault::Unknown(format!("the credentials of {account} could not be read: {error}"));
                return read_within(DOES_FOR).map(|(_, known)| known).ok_or_else(unread);
            }
            Err(undecipherable) => return Err(lacking(undecipherable.to_string())),
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(account, (read_at, Arc::clone(&read)));
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::crypto::EncryptionKey;
    use crate::db;
    use testkit::fuzz::{check, json};

    fn key(byte: &str) -> KeyRing {
        KeyRing::new(EncryptionKey::from_hex(&byte.repeat(32)).expect("a key"), vec![])
    }

    /// A memory over a database of its own, with what is stored for an account there.
    async fn remembered(stored: Option<&[u8]>, account: ProviderAccountId) -> (Remembered, testkit::Database) {
        let database = testkit::Database::create().await.expect("a database");
        let pool = db::pool(&Secret::new(database.url().to_owned()), 1, "credentials").expect("its address");
        sqlx::query(
            "WITH merchant AS (INSERT INTO merchants (id, name, created_at) VALUES ($1, 'Shop', now())),
                  account AS (INSERT INTO accounts (id, merchant_id, mode, name, timezone, provider_account_id, created_at)
                              VALUES ($1, $1, 'test', 'Shop', 'UTC', $1, now()))
             INSERT INTO provider_accounts (id, account_id, provider, credentials, created_at)
             VALUES ($1, $1, 'card_gateway', $2, now())",
        )
        .bind(account.uuid())
        .bind(stored)
        .execute(&pool)
        .await
        .expect("written");
        (Remembered::new(pool, key("00")), database)
    }

    fn whole() -> Credentials {
        let whole = r#"{"username":"shop","api_key":"k","secret_key":"0123456789abcdef"}"#;
        Credentials::parse(whole).expect("whole")
    }

    #[tokio::test]
    async fn a_database_that_does_not_tell_says_nothing_of_a_request() {
        let account = ProviderAccountId::new(Clock::system().now());
        let (remembered, _database) = remembered(Some(&whole().seal(&key("00"), account)), account).await;
        assert_eq!(remembered.of(account).await.expect("read").username, "shop");
        remembered.db.close().await;
        let aged = |age: Duration| {
            let mut known = remembered.known.lock().expect("nobody panicked");
            let (read_at, _) = known.get_mut(&account).expect("remembered");
            *read_at = Instant::now().checked_sub(age).expect("the machine runs for longer");
        };
        aged(BELIEVED_FOR);
        assert_eq!(remembered.of(account).await.expect("remembered").username, "shop");
        aged(DOES_FOR);
        assert!(matches!(remembered.of(account).await, Err(Fault::Unknown(_))), "too long ago");
        let other = ProviderAccountId::new(Clock::system().now());
        assert!(matches!(remembered.of(other).await, Err(Fault::Unknown(_))), "never read");
    }

    #[tokio::test]
    async fn what_is_lacking_or_cannot_be_decrypted_lets_nothing_be_sent() {
        let account = ProviderAccountId::new(Clock::system().now());
        let (lacking, _first) = remembered(None, account).await;
        assert!(matches!(lacking.of(account).await, Err(Fault::NotProcessed { .. })));
        let (unreadable, _second) = remembered(Some(&whole().seal(&key("11"), account)), account).await;
        assert!(matches!(unreadable.of(account).await, Err(Fault::NotProcessed { .. })));
    }

    #[test]
    fn credentials_are_whole_or_none() {
        let whole = r#"{"username":"shop","api_key":"k","secret_key":"0123456789abcdef","app_key":"x"}"#;
        let parsed = Credentials::parse(whole).expect("whole");
        assert_eq!(format!("{parsed:?}").matches("[secret]").count(), 2);
        // printf 'shop0123456789abcdef' | md5sum
        assert_eq!(parsed.field_key(), "d8b95871952c9e2523bf3a1b696f3dbc");
        let until = r#"{"username":"shop","api_key":"k","secret_key":"0123456789abcdef","former_keys_until":"soon"}"#;
        for broken in ["", "{}", "[]", r#"{"username":"shop","api_key":"k","secret_key":"short"}"#, until] {
            assert!(Credentials::parse(broken).is_none(), "{broken}");
        }
    }

    #[test]
    fn the_secret_before_this_one_is_remembered_and_no_other() {
        let with = |secret: &str, until: &str| {
            let json = serde_json::json!({
                "username": "shop", "api_key": "k", "secret_key": secret.repeat(16), "former_keys_until": until,
            });
            Credentials::parse(&json.to_string()).expect("whole")
        };
        let told = |credentials: &Credentials| {
            let former = credentials.former_secret_key.as_ref().map(|secret| secret.expose()[..1].to_owned());
            (former, credentials.former_keys_until.map(|until| until.to_string()))
        };
        let account = ProviderAccountId::new(Clock::system().now());
        let stored = |credentials: &Credentials| {
            let sealed = credentials.seal(&key("00"), account);
            let json = key("00").open(&sealed, &account.to_string()).expect("its own");
            Credentials::parse(json.expose()).expect("whole")
        };
        let (one, two) = ("2026-01-01T00:00:00.000Z", "2026-01-02T00:00:00.000Z");
        let second = stored(&with("b", one).replacing(with("a", two)));
        assert_eq!(told(&second), (Some("a".to_owned()), Some(one.to_owned())));
        let again = stored(&with("b", two).replacing(second.clone()));
        assert_eq!(told(&again), told(&second), "the same ones");
        let third = stored(&with("c", two).replacing(second));
        assert_eq!(told(&third), (Some("b".to_owned()), Some(two.to_owned())));
    }

    #[test]
    fn whatever_is_on_standard_input_is_credentials_or_none_and_is_not_shown() {
        let valid = serde_json::json!({"username": "shop", "api_key": "canary-api", "secret_key": "0123456789abcdef"});
        check(json(valid), |text| {
            let Ok(text) = String::from_utf8(text.0) else { return };
            let Some(read) = Credentials::parse(&text) else { return };
            assert!(
                !read.username.is_empty() && !read.api_key.expose().is_empty() && read.secret_key.expose().len() == 16
            );
            let shown = format!("{read:?}");
            assert_eq!(shown.matches("[secret]").count(), 2, "{shown}");
            assert!(read.username.contains("canary") || !shown.contains("canary"), "{shown}");
        });
    }
}

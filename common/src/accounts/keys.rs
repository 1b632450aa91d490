//! API keys: `svc_sk_test_` + the key's public id + 64 hexadecimal digits of secret. Looked up by the id, compared by hash.

use std::time::Duration;

use sqlx::{Acquire, PgConnection, PgExecutor, PgPool, Postgres};

use super::{KeyKind, Mode};
use crate::capabilities::Operation;
use crate::crypto::{KeyRing, Peppers, Secret, random_hex};
use crate::error::{Error, Result};
use crate::id::{AccountId, KeyId};
use crate::time::Timestamp;

const SECRET_BYTES: usize = 32;
const ULID_CHARS: usize = 26;

fn prefix(kind: KeyKind, mode: Mode) -> String {
    let kind = match kind {
        KeyKind::Secret => "sk",
        KeyKind::Publishable => "pk",
    };
    format!("svc_{kind}_{}_", mode.name())
}

/// The public id inside a key; none if the text is not formed like a key. It proves nothing and is no secret.
pub fn key_id(text: &str) -> Option<KeyId> {
    let rest = [KeyKind::Secret, KeyKind::Publishable]
        .into_iter()
        .flat_map(|kind| [Mode::Test, Mode::Live].map(|mode| prefix(kind, mode)))
        .find_map(|prefix| text.strip_prefix(prefix.as_str()))?;
    let (ulid, secret) = rest.split_at_checked(ULID_CHARS)?;
    (secret.len() == SECRET_BYTES * 2).then(|| format!("{}{ulid}", KeyId::PREFIX).parse().ok())?
}

/// A key just issued: the only time that it is shown whole.
#[derive(Debug)]
pub struct IssuedKey {
    /// Its public id, which signatures name.
    pub id: KeyId,
    /// The key itself.
    pub key: Secret<String>,
    /// What a live secret key signs its requests with.
    pub signing_secret: Option<Secret<String>>,
}

/// A key as an operator sees it.
#[derive(Debug)]
pub struct KeyRow {
    /// Its public id.
    pub id: KeyId,
    /// Whose it is.
    pub account_id: AccountId,
    /// Its kind.
    pub kind: KeyKind,
    /// The whole key, of a publishable one.
    pub key_text: Option<String>,
    /// `None` is every entitlement.
    pub entitlements: Option<Vec<String>>,
    /// When it was issued.
    pub created_at: Timestamp,
    /// Since when it is refused.
    pub revoked_at: Option<Timestamp>,
    /// From when on it is refused, since it was replaced.
    pub expires_at: Option<Timestamp>,
    /// When a request was last let in with it, to about a minute.
    pub last_used_at: Option<Timestamp>,
    /// Under which pepper it is hashed; none if that is not known.
    pub pepper_id: Option<Vec<u8>>,
}

async fn mode_of(db: &mut PgConnection, account: AccountId) -> Result<Mode> {
    sqlx::query_scalar!("SELECT mode FROM accounts WHERE id = $1", account.uuid())
        .fetch_optional(db)
        .await?
        .ok_or_else(|| Error::no_such("account", account))
}

fn names(entitlements: Option<&[Operation]>) -> Option<Vec<String>> {
    entitlements.map(|list| list.iter().map(|operation| operation.name().to_owned()).collect())
}

/// Issues a secret key, with a signing secret if the account is live.
///
/// # Errors
/// [`Error::NotFound`] for an unknown account.
pub async fn issue_secret(
    db: impl Acquire<'_, Database = Postgres>,
    peppers: &Peppers,
    encryption: &KeyRing,
    now: Timestamp,
    account: AccountId,
    entitlements: Option<&[Operation]>,
) -> Result<IssuedKey> {
    let mut db = db.acquire().await?;
    let mode = mode_of(&mut db, account).await?;
    let (id, key) = make(now, KeyKind::Secret, mode);
    let signing_secret = (mode == Mode::Live).then(|| format!("svc_ss_{}", random_hex(SECRET_BYTES)));
    let (pepper, entitlements) = (peppers.current(), names(entitlements));
    let sealed = signing_secret.as_deref().map(|secret| encryption.seal(secret, &id.to_string()));
    sqlx::query!(
        "INSERT INTO api_keys (id, account_id, kind, key_hash, pepper_id, entitlements, signing_secret, created_at)
         VALUES ($1, $2, 'secret', $3, $4, $5, $6, $7)",
        id.uuid(),
        account.uuid(),
        &pepper.hash(&key)[..],
        &pepper.id()[..],
        entitlements.as_deref(),
        sealed,
        now,
    )
    .execute(&mut *db)
    .await?;
    Ok(IssuedKey { id, key: Secret::new(key), signing_secret: signing_secret.map(Secret::new) })
}

/// Issues a publishable key. It is kept whole, for it may be seen again.
///
/// # Errors
/// [`Error::NotFound`] for an unknown account.
pub async fn issue_publishable(
    db: impl Acquire<'_, Database = Postgres>,
    peppers: &Peppers,
    now: Timestamp,
    account: AccountId,
    entitlements: Option<&[Operation]>,
) -> Result<IssuedKey> {
    let mut db = db.acquire().await?;
    let (id, key) = make(now, KeyKind::Publishable, mode_of(&mut db, account).await?);
    let (pepper, entitlements) = (peppers.current(), names(entitlements));
    sqlx::query!(
        "INSERT INTO api_keys (id, account_id, kind, key_hash, pepper_id, key_text, entitlements, created_at)
         VALUES ($1, $2, 'publishable', $3, $4, $5, $6, $7)",
        id.uuid(),
        account.uuid(),
        &pepper.hash(&key)[..],
        &pepper.id()[..],
        key,
        entitlements.as_deref(),
        now,
    )
    .execute(&mut *db)
    .await?;
    Ok(IssuedKey { id, key: Secret::new(key), signing_secret: None })
}

fn make(now: Timestamp, kind: KeyKind, mode: Mode) -> (KeyId, String) {
    let id = KeyId::new(now);
    let text = id.to_string();
    let ulid = text.strip_prefix(KeyId::PREFIX).expect("an id begins with its prefix");
    (id, format!("{}{ulid}{}", prefix(kind, mode), random_hex(SECRET_BYTES)))
}

/// Which keys are wanted.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeyFilter {
    /// Of this account alone.
    pub account: Option<AccountId>,
    /// Of this kind alone.
    pub kind: Option<KeyKind>,
    /// Those alone that are neither revoked nor past their end.
    pub in_use: bool,
    /// Those alone that are in use and not known to be hashed under the pepper of this id.
    pub not_under: Option<[u8; 4]>,
}

/// The keys that pass a filter, newest first.
///
/// # Errors
/// Only the database's.
pub async fn list(db: &PgPool, filter: KeyFilter) -> Result<Vec<KeyRow>> {
    let rows = sqlx::query_as!(
        KeyRow,
        "SELECT id, account_id, kind, key_text, entitlements, created_at, revoked_at, expires_at, last_used_at, pepper_id
         FROM api_keys
         WHERE ($1::uuid IS NULL OR account_id = $1)
           AND ($2::bytea IS NULL OR pepper_id IS DISTINCT FROM $2)
           AND ($3::key_kind IS NULL OR kind = $3)
           AND (NOT $4 OR (revoked_at IS NULL AND (expires_at IS NULL OR expires_at > clock_timestamp())))
         ORDER BY id DESC",
        filter.account.map(AccountId::uuid),
        filter.not_under.as_ref().map(|id| &id[..]),
        filter.kind as Option<KeyKind>,
        filter.in_use || filter.not_under.is_some(),
    )
    .fetch_all(db)
    .await?;
    Ok(rows)
}

/// Revokes a key; it is refused within a second (`KEY_CACHE_MS`). Revoking it again changes nothing. Answers whose it is.
///
/// # Errors
/// [`Error::NotFound`] for an unknown key.
pub async fn revoke(db: impl PgExecutor<'_>, key: KeyId, now: Timestamp) -> Result<AccountId> {
    let query = sqlx::query_scalar!(
        "UPDATE api_keys SET revoked_at = coalesce(revoked_at, $2) WHERE id = $1 RETURNING account_id",
        key.uuid(),
        now
    );
    query.fetch_optional(db).await?.ok_or_else(|| Error::no_such("key", key))
}

/// Revokes every key of an account that is in use, and answers which these were.
///
/// # Errors
/// [`Error::NotFound`] for an unknown account.
pub async fn revoke_all(tx: &mut PgConnection, account: AccountId, now: Timestamp) -> Result<Vec<KeyId>> {
    mode_of(tx, account).await?;
    let revoked = sqlx::query_scalar!(
        "WITH used AS MATERIALIZED (SELECT id FROM api_keys WHERE account_id = $1 AND revoked_at IS NULL),
         held AS MATERIALIZED (
             SELECT locked.id FROM unnest(ARRAY(SELECT id FROM used ORDER BY id)) AS u (id)
             CROSS JOIN LATERAL (SELECT k.id FROM api_keys k WHERE k.id = u.id AND k.revoked_at IS NULL
                 FOR NO KEY UPDATE) locked)
         UPDATE api_keys k SET revoked_at = $2 FROM held WHERE k.id = held.id RETURNING k.id",
        account.uuid(),
        now
    );
    Ok(revoked.fetch_all(tx).await?)
}

/// Issues a key in the place of another: of the same account and kind, and good for the same. The former one ends after
/// `grace`, or sooner if it was to. Answers the former's account, the new key, and when the former ends.
///
/// # Errors
/// [`Error::NotFound`] for an unknown key, [`Error::Conflict`] for one that is refused already.
pub async fn rotate(
    tx: &mut PgConnection,
    peppers: &Peppers,
    encryption: &KeyRing,
    now: Timestamp,
    key: KeyId,
    grace: Duration,
) -> Result<(AccountId, IssuedKey, Timestamp)> {
    let former = sqlx::query!(
        r#"UPDATE api_keys SET expires_at = least(expires_at, clock_timestamp() + make_interval(secs => $2))
           WHERE id = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > clock_timestamp())
           RETURNING account_id, kind, entitlements, expires_at AS "expires_at!""#,
        key.uuid(),
        grace.as_secs_f64(),
    );
    let Some(former) = former.fetch_optional(&mut *tx).await? else {
        let known = sqlx::query_scalar!("SELECT id FROM api_keys WHERE id = $1", key.uuid());
        known.fetch_optional(&mut *tx).await?.ok_or_else(|| Error::no_such("key", key))?;
        return Err(Error::conflict("the key was revoked, or has ended: issue another"));
    };
    // An operation that this version does not know can be kept by none of its keys.
    let entitlements =
        former.entitlements.map(|names| names.iter().filter_map(|name| name.parse().ok()).collect::<Vec<_>>());
    let (account, only) = (former.account_id, entitlements.as_deref());
    let issued = match former.kind {
        KeyKind::Secret => issue_secret(tx, peppers, encryption, now, account, only).await?,
        KeyKind::Publishable => issue_publishable(tx, peppers, now, account, only).await?,
    };
    Ok((account, issued, former.expires_at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::Pepper;
    use proptest::prelude::*;
    use testkit::fuzz::{changed, check, texts};

    #[test]
    fn the_public_id_is_found_in_a_key_and_in_nothing_else() {
        let now = Timestamp::from_millisecond(1_800_000_000_000).expect("in range");
        let (id, key) = make(now, KeyKind::Secret, Mode::Live);
        assert!(key.starts_with("svc_sk_live_"));
        assert_eq!(key_id(&key), Some(id));
        for bad in ["", "svc_sk_test_", "svc_sk_test_é", &key[..key.len() - 1], &format!("{key}0"), &key[4..]] {
            assert_eq!(key_id(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_key_with_a_changed_character_is_no_key_or_not_the_same() {
        let pepper = Pepper::from_hex(&"5a".repeat(32)).expect("a pepper");
        let now = Timestamp::from_millisecond(1_800_000_000_000).expect("in range");
        let (id, key) = make(now, KeyKind::Secret, Mode::Test);
        let hash = pepper.hash(&key);
        check(prop_oneof![changed(key.as_str()), texts()], |text| {
            if let Some(read) = key_id(&text) {
                assert_eq!(text.len(), key.len(), "{text}");
                assert!(text.contains(read.to_string().trim_start_matches(KeyId::PREFIX)), "{text}");
            }
            assert!(!pepper.matches(&text, &hash), "{text} passes for the key of {id}");
        });
    }
}

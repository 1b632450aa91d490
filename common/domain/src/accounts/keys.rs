//! API keys: `svc_sk_test_` + the key's public id + 64 hexadecimal digits of secret. Looked up by the id, verified by a
//! hash.

use std::time::Duration;

use sqlx::{PgConnection, PgExecutor, PgPool};
use uuid::Uuid;

use super::{KeyKind, Mode};
use foundation::crypto::{KeyRing, Peppers, Place, Secret, random_hex};
use foundation::error::{Error, Result};
use foundation::id::{AccountId, KeyId, MerchantId};
use foundation::time::Timestamp;
use providers::capabilities::Permission;

const SECRET_BYTES: usize = 32;
const ULID_CHARS: usize = 26;
/// Valid keys of an account.
const MAX_KEYS: i64 = 200;
/// Characters of a key's name.
const MAX_NAME: usize = 64;

fn prefix(kind: KeyKind, mode: Mode) -> String {
    let kind = match kind {
        KeyKind::Secret => "sk",
        KeyKind::Publishable => "pk",
    };
    format!("svc_{kind}_{}_", mode.name())
}

/// Returns the public id contained in a key; `None` if the text does not have the form of a key. The id is not secret
/// and proves nothing.
pub fn key_id(text: &str) -> Option<KeyId> {
    let rest = [KeyKind::Secret, KeyKind::Publishable]
        .into_iter()
        .flat_map(|kind| [Mode::Test, Mode::Live].map(|mode| prefix(kind, mode)))
        .find_map(|prefix| text.strip_prefix(prefix.as_str()))?;
    let (ulid, secret) = rest.split_at_checked(ULID_CHARS)?;
    (secret.len() == SECRET_BYTES * 2).then(|| format!("{}{ulid}", KeyId::PREFIX).parse().ok())?
}

/// A newly issued key. Its text cannot be retrieved again, except that of a publishable key.
#[derive(Debug)]
pub struct IssuedKey {
    /// The public id, which signatures refer to.
    pub id: KeyId,
    pub key: Secret<String>,
    /// The secret with which a live secret key signs its requests.
    pub signing_secret: Option<Secret<String>>,
}

/// A key as operators see it.
#[derive(Debug)]
pub struct KeyRow {
    pub id: KeyId,
    pub account_id: AccountId,
    /// What the merchant calls it.
    pub name: Option<String>,
    pub kind: KeyKind,
    /// The full text of a publishable key.
    pub key_text: Option<String>,
    /// `None` grants every entitlement.
    pub entitlements: Option<Vec<String>>,
    pub created_at: Timestamp,
    pub revoked_at: Option<Timestamp>,
    /// When it expires, because it was replaced.
    pub expires_at: Option<Timestamp>,
    /// When a request with it was last accepted, to about a minute.
    pub last_used_at: Option<Timestamp>,
    /// The pepper of its hash, if known.
    pub pepper_id: Option<Vec<u8>>,
}

/// Locks an account before its keys, so that concurrent requests cannot exceed their number. Returns its mode.
async fn lock_account(db: &mut PgConnection, account: AccountId) -> Result<Mode> {
    sqlx::query_scalar!("SELECT mode FROM accounts WHERE id = $1 FOR NO KEY UPDATE", account.uuid())
        .fetch_optional(db)
        .await?
        .ok_or_else(|| Error::no_such("account", account))
}

/// The mode of an account that may have another key.
async fn mode_for_new(db: &mut PgConnection, account: AccountId) -> Result<Mode> {
    let mode = lock_account(&mut *db, account).await?;
    let keys = sqlx::query_scalar!(
        r#"SELECT count(*) AS "keys!" FROM api_keys WHERE account_id = $1 AND user_id IS NULL AND revoked_at IS NULL
               AND (expires_at IS NULL OR expires_at > clock_timestamp())"#,
        account.uuid(),
    );
    match keys.fetch_one(db).await? < MAX_KEYS {
        true => Ok(mode),
        false => Err(Error::conflict(format!("an account can have at most {MAX_KEYS} valid keys: revoke some"))),
    }
}

fn entitlement_names(entitlements: Option<&[Permission]>) -> Option<Vec<String>> {
    entitlements.map(|list| list.iter().map(|operation| operation.name().to_owned()).collect())
}

/// The name of a key or a passkey as it is stored; `None` for an empty one.
///
/// # Errors
/// 422 `name`.
pub(crate) fn stored_name(name: Option<&str>) -> Result<Option<&str>> {
    let name = name.map(str::trim).filter(|name| !name.is_empty());
    match name.is_none_or(|name| name.chars().count() <= MAX_NAME && !name.chars().any(char::is_control)) {
        true => Ok(name),
        false => Err(Error::invalid(
            "name",
            format!("the name must have at most {MAX_NAME} characters, none of them a control character"),
        )),
    }
}

/// Where the signing secret of a key is stored.
pub fn signing_secret_place(account: AccountId, key: KeyId) -> Place {
    Place::new("api_keys.signing_secret", account, key)
}

/// Issues a secret key. For a live account it has a signing secret.
///
/// # Errors
/// 422 `name`; [`Error::NotFound`] for an unknown account; [`Error::Conflict`] if it has too many keys.
pub async fn issue_secret(
    db: &mut PgConnection,
    peppers: &Peppers,
    encryption: &KeyRing,
    now: Timestamp,
    account: AccountId,
    (name, entitlements): (Option<&str>, Option<&[Permission]>),
) -> Result<IssuedKey> {
    let (name, mode) = (stored_name(name)?, mode_for_new(db, account).await?);
    let (id, key) = generate(now, KeyKind::Secret, mode);
    let signing_secret = (mode == Mode::Live).then(|| format!("svc_ss_{}", random_hex(SECRET_BYTES)));
    let (pepper, entitlements) = (peppers.current(), entitlement_names(entitlements));
    let sealed = signing_secret.as_deref().map(|secret| encryption.seal(secret, &signing_secret_place(account, id)));
    sqlx::query!(
        "INSERT INTO api_keys (id, account_id, kind, key_hash, pepper_id, entitlements, signing_secret, created_at, name)
         VALUES ($1, $2, 'secret', $3, $4, $5, $6, $7, $8)",
        id.uuid(),
        account.uuid(),
        &pepper.hash(&key)[..],
        &pepper.id()[..],
        entitlements.as_deref(),
        sealed,
        now,
        name,
    )
    .execute(db)
    .await?;
    Ok(IssuedKey { id, key: Secret::new(key), signing_secret: signing_secret.map(Secret::new) })
}

/// Issues a publishable key. Its text is stored, because it may be displayed again.
///
/// # Errors
/// 422 `name`; [`Error::NotFound`] for an unknown account; [`Error::Conflict`] if it has too many keys.
pub async fn issue_publishable(
    db: &mut PgConnection,
    peppers: &Peppers,
    now: Timestamp,
    account: AccountId,
    (name, entitlements): (Option<&str>, Option<&[Permission]>),
) -> Result<IssuedKey> {
    let name = stored_name(name)?;
    let (id, key) = generate(now, KeyKind::Publishable, mode_for_new(db, account).await?);
    let (pepper, entitlements) = (peppers.current(), entitlement_names(entitlements));
    sqlx::query!(
        "INSERT INTO api_keys (id, account_id, kind, key_hash, pepper_id, key_text, entitlements, created_at, name)
         VALUES ($1, $2, 'publishable', $3, $4, $5, $6, $7, $8)",
        id.uuid(),
        account.uuid(),
        &pepper.hash(&key)[..],
        &pepper.id()[..],
        key,
        entitlements.as_deref(),
        now,
        name,
    )
    .execute(db)
    .await?;
    Ok(IssuedKey { id, key: Secret::new(key), signing_secret: None })
}

fn generate(now: Timestamp, kind: KeyKind, mode: Mode) -> (KeyId, String) {
    let id = KeyId::new(now);
    let text = id.to_string();
    let ulid = text.strip_prefix(KeyId::PREFIX).expect("an id begins with its prefix");
    (id, format!("{}{ulid}{}", prefix(kind, mode), random_hex(SECRET_BYTES)))
}

/// The keys that meet a condition, without those as which users act.
macro_rules! select_keys {
    ($condition:literal, $($arg:expr),+ $(,)?) => {
        sqlx::query_as!(
            KeyRow,
            "SELECT id, account_id, name, kind, key_text, entitlements, created_at, revoked_at, expires_at, last_used_at, pepper_id
             FROM api_keys WHERE user_id IS NULL AND " + $condition,
            $($arg),+
        )
    };
}

/// Which keys to list.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeyFilter {
    pub account: Option<AccountId>,
    pub kind: Option<KeyKind>,
    /// Only keys that are neither revoked nor expired.
    pub in_use: bool,
    /// Only keys in use that are not known to be hashed with the pepper of this id.
    pub not_under: Option<[u8; 4]>,
}

/// Lists keys, newest first, without those as which users act.
///
/// # Errors
/// Database errors only.
pub async fn list(db: &PgPool, filter: KeyFilter) -> Result<Vec<KeyRow>> {
    let rows = select_keys!(
        "($1::uuid IS NULL OR account_id = $1)
           AND ($2::bytea IS NULL OR pepper_id IS DISTINCT FROM $2)
           AND ($3::key_kind IS NULL OR kind = $3)
           AND (NOT $4 OR (revoked_at IS NULL AND (expires_at IS NULL OR expires_at > clock_timestamp())))
         ORDER BY id DESC",
        filter.account.map(AccountId::uuid),
        filter.not_under.as_ref().map(|id| &id[..]),
        filter.kind as Option<KeyKind>,
        filter.in_use || filter.not_under.is_some(),
    );
    Ok(rows.fetch_all(db).await?)
}

/// The newest keys of an account, without those as which users act.
///
/// # Errors
/// Database errors only.
pub async fn newest(db: &PgPool, account: AccountId, limit: i64) -> Result<Vec<KeyRow>> {
    let rows = select_keys!("account_id = $1 ORDER BY id DESC LIMIT $2", account.uuid(), limit);
    Ok(rows.fetch_all(db).await?)
}

/// The key of an account, unless it is one as which a user acts.
///
/// # Errors
/// [`Error::NotFound`] for an unknown key.
pub async fn find(db: &PgPool, account: AccountId, key: KeyId) -> Result<KeyRow> {
    let row = select_keys!("id = $1 AND account_id = $2", key.uuid(), account.uuid());
    row.fetch_optional(db).await?.ok_or_else(|| Error::no_such("key", key))
}

/// The names of these keys of a merchant, without those that have none.
///
/// # Errors
/// Database errors only.
pub async fn names(db: &PgPool, merchant: MerchantId, keys: &[KeyId]) -> Result<Vec<(KeyId, String)>> {
    let keys: Vec<Uuid> = keys.iter().map(|key| key.uuid()).collect();
    let named = sqlx::query!(
        r#"SELECT k.id, k.name AS "name!" FROM api_keys k JOIN accounts a ON a.id = k.account_id
           WHERE k.id = ANY ($1) AND a.merchant_id = $2 AND k.name IS NOT NULL"#,
        &keys,
        merchant.uuid(),
    );
    Ok(named.fetch_all(db).await?.into_iter().map(|row| (row.id, row.name)).collect())
}

/// Gives a key another name, of this account if one is given; an empty one removes it. Returns its account.
///
/// # Errors
/// 422 `name`; [`Error::NotFound`] for an unknown key.
pub async fn rename(db: impl PgExecutor<'_>, account: Option<AccountId>, key: KeyId, name: &str) -> Result<AccountId> {
    let name = stored_name(Some(name))?;
    let query = sqlx::query_scalar!(
        "UPDATE api_keys SET name = $2
         WHERE id = $1 AND user_id IS NULL AND ($3::uuid IS NULL OR account_id = $3) RETURNING account_id",
        key.uuid(),
        name,
        account.map(AccountId::uuid),
    );
    query.fetch_optional(db).await?.ok_or_else(|| Error::no_such("key", key))
}

/// Revokes a key, of this account if one is given. It is refused within a second (`KEY_CACHE_MS`). Revoking it again
/// changes nothing. Returns its account.
///
/// # Errors
/// [`Error::NotFound`] for an unknown key.
pub async fn revoke(
    db: impl PgExecutor<'_>,
    account: Option<AccountId>,
    key: KeyId,
    now: Timestamp,
) -> Result<AccountId> {
    let query = sqlx::query_scalar!(
        "UPDATE api_keys SET revoked_at = coalesce(revoked_at, $2)
         WHERE id = $1 AND user_id IS NULL AND ($3::uuid IS NULL OR account_id = $3) RETURNING account_id",
        key.uuid(),
        now,
        account.map(AccountId::uuid),
    );
    query.fetch_optional(db).await?.ok_or_else(|| Error::no_such("key", key))
}

/// Revokes every key of an account that is in use, except those as which users act, and returns their ids.
///
/// # Errors
/// [`Error::NotFound`] for an unknown account.
pub async fn revoke_all(tx: &mut PgConnection, account: AccountId, now: Timestamp) -> Result<Vec<KeyId>> {
    lock_account(&mut *tx, account).await?;
    let revoked = sqlx::query_scalar!(
        "WITH used AS MATERIALIZED (SELECT id FROM api_keys WHERE account_id = $1 AND user_id IS NULL AND revoked_at IS NULL),
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

/// Issues a key that replaces another, with the same account, kind and entitlements; only of `account` if one is given. It
/// has the same name, unless another one is given. The former key expires after `grace`, or earlier if it already was to. Returns the account, the new key, and when the former key expires.
///
/// # Errors
/// 422 `name`; [`Error::NotFound`] for an unknown key, [`Error::Conflict`] if it is revoked or has expired.
pub async fn rotate(
    tx: &mut PgConnection,
    peppers: &Peppers,
    encryption: &KeyRing,
    now: Timestamp,
    (account, key): (Option<AccountId>, KeyId),
    name: Option<&str>,
    grace: Duration,
) -> Result<(AccountId, IssuedKey, Timestamp)> {
    let of_key = sqlx::query_scalar!(
        "SELECT account_id FROM api_keys WHERE id = $1 AND user_id IS NULL AND ($2::uuid IS NULL OR account_id = $2)",
        key.uuid(),
        account.map(AccountId::uuid),
    );
    let account = of_key.fetch_optional(&mut *tx).await?.ok_or_else(|| Error::no_such("key", key))?;
    lock_account(&mut *tx, account).await?;
    let former = sqlx::query!(
        r#"UPDATE api_keys SET expires_at = least(expires_at, clock_timestamp() + make_interval(secs => $2))
           WHERE id = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > clock_timestamp())
           RETURNING name, kind, entitlements, expires_at AS "expires_at!""#,
        key.uuid(),
        grace.as_secs_f64(),
    );
    let former = former.fetch_optional(&mut *tx).await?;
    let former = former.ok_or_else(|| Error::conflict("the key is revoked or has expired: issue a new one"))?;
    // Entitlements that this release does not know cannot be granted by any of its keys.
    let entitlements =
        former.entitlements.map(|names| names.iter().filter_map(|name| name.parse().ok()).collect::<Vec<_>>());
    let chosen = (name.or(former.name.as_deref()), entitlements.as_deref());
    let issued = match former.kind {
        KeyKind::Secret => issue_secret(tx, peppers, encryption, now, account, chosen).await?,
        KeyKind::Publishable => issue_publishable(tx, peppers, now, account, chosen).await?,
    };
    Ok((account, issued, former.expires_at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use foundation::crypto::Pepper;
    use proptest::prelude::*;
    use testkit::fuzz::{changed, check, texts};

    #[test]
    fn the_public_id_is_found_only_in_well_formed_keys() {
        let now = Timestamp::from_millisecond(1_800_000_000_000).expect("in range");
        let (id, key) = generate(now, KeyKind::Secret, Mode::Live);
        assert!(key.starts_with("svc_sk_live_"));
        assert_eq!(key_id(&key), Some(id));
        for bad in ["", "svc_sk_test_", "svc_sk_test_é", &key[..key.len() - 1], &format!("{key}0"), &key[4..]] {
            assert_eq!(key_id(bad), None, "{bad}");
        }
    }

    #[test]
    fn keys_with_a_changed_character_are_rejected() {
        let pepper = Pepper::from_hex(&"5a".repeat(32)).expect("a pepper");
        let now = Timestamp::from_millisecond(1_800_000_000_000).expect("in range");
        let (id, key) = generate(now, KeyKind::Secret, Mode::Test);
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

//! Moves the hashes of keys to the current pepper (docs/rotation.md): of a secret key when it is used, because only
//! then its text is known, and of a publishable key by an operator's command, because its text is stored.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use sqlx::{PgConnection, PgExecutor, PgPool};
use uuid::Uuid;

use foundation::crypto::Peppers;
use foundation::error::Result;
use foundation::id::KeyId;

/// Minimum time between two attempts for a key in one process. While a new pepper is rolled out, processes with and
/// without it would otherwise move the same key back and forth.
const RETRY_AFTER: Duration = Duration::from_secs(60);
/// Maximum number of keys whose last attempt is stored; the map is cleared when it is full.
const MAX_ENTRIES: usize = 10_000;
/// Number of publishable keys per page.
const PAGE_SIZE: i64 = 500;

/// The time of the last attempt for each key.
#[derive(Default)]
pub(super) struct AttemptThrottle(Mutex<HashMap<KeyId, Instant>>);

impl AttemptThrottle {
    /// Whether another attempt is due. If so, it starts now.
    pub(super) fn begin(&self, key: KeyId) -> bool {
        let mut attempts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if attempts.get(&key).is_some_and(|attempt| attempt.elapsed() < RETRY_AFTER) {
            return false;
        }
        if attempts.len() >= MAX_ENTRIES {
            attempts.clear();
        }
        attempts.insert(key, Instant::now());
        true
    }
}

/// Hashes a key with the current pepper, unless another process already has. Returns whether it changed the row.
pub(super) async fn rehash(
    db: impl PgExecutor<'_>,
    peppers: &Peppers,
    id: KeyId,
    text: &str,
    former: &[u8],
) -> sqlx::Result<bool> {
    let pepper = peppers.current();
    let done = sqlx::query!(
        "UPDATE api_keys SET key_hash = $3, pepper_id = $4 WHERE id = $1 AND key_hash = $2",
        id.uuid(),
        former,
        &pepper.hash(text)[..],
        &pepper.id()[..],
    )
    .execute(db)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Hashes one page of publishable keys after `after` with the current pepper. Keys that match none of the peppers stay
/// unchanged. Returns how many were moved, and the key after which to continue; `None` after the last page.
///
/// # Errors
/// Database errors only.
pub async fn rehash_publishable(
    tx: &mut PgConnection,
    peppers: &Peppers,
    after: Option<KeyId>,
) -> Result<(u64, Option<KeyId>)> {
    let rows = sqlx::query!(
        r#"SELECT id, key_hash, key_text AS "key_text!", pepper_id FROM api_keys
           WHERE kind = 'publishable' AND revoked_at IS NULL AND id > $1 ORDER BY id LIMIT $2"#,
        after.map_or(Uuid::nil(), KeyId::uuid),
        PAGE_SIZE,
    )
    .fetch_all(&mut *tx)
    .await?;
    let mut moved = 0;
    for row in &rows {
        let is_current = row.pepper_id.as_deref() == Some(&peppers.current().id()[..]);
        if !is_current && peppers.match_any(&row.key_text, &row.key_hash) {
            moved += u64::from(rehash(&mut *tx, peppers, row.id, &row.key_text, &row.key_hash).await?);
        }
    }
    Ok((moved, rows.last().map(|row| row.id)))
}

/// Number of keys in use that are not known to be hashed with the current pepper.
#[derive(Clone, Copy, Debug)]
pub struct KeysUnderOtherPeppers {
    /// Secret keys, which move when they are used.
    pub secret: i64,
    /// Publishable keys, which an operator can move.
    pub publishable: i64,
    /// How many of both are known to be hashed with another pepper.
    pub known: i64,
}

/// Counts these keys. Reads every key.
///
/// # Errors
/// Database errors only.
pub async fn keys_under_other_peppers(db: &PgPool, peppers: &Peppers) -> Result<KeysUnderOtherPeppers> {
    let counted = sqlx::query_as!(
        KeysUnderOtherPeppers,
        r#"SELECT count(*) FILTER (WHERE kind = 'secret') AS "secret!",
                  count(*) FILTER (WHERE kind = 'publishable') AS "publishable!",
                  count(pepper_id) AS "known!"
           FROM api_keys
           WHERE pepper_id IS DISTINCT FROM $1 AND revoked_at IS NULL AND user_id IS NULL
             AND (expires_at IS NULL OR expires_at > clock_timestamp())"#,
        &peppers.current().id()[..],
    )
    .fetch_one(db)
    .await?;
    Ok(counted)
}

/// Returns the texts and hashes of the newest and the oldest publishable key in use, with which a process checks its
/// peppers at startup.
///
/// # Errors
/// Database errors only.
pub async fn samples(db: &PgPool) -> Result<Vec<(String, Vec<u8>)>> {
    let rows = sqlx::query!(
        r#"(SELECT key_text AS "text!", key_hash AS "hash!" FROM api_keys
            WHERE kind = 'publishable' AND revoked_at IS NULL ORDER BY id DESC LIMIT 1)
           UNION ALL
           (SELECT key_text, key_hash FROM api_keys WHERE kind = 'publishable' AND revoked_at IS NULL ORDER BY id LIMIT 1)"#
    )
    .fetch_all(db)
    .await?;
    Ok(rows.into_iter().map(|row| (row.text, row.hash)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use foundation::time::Timestamp;

    #[test]
    fn repeated_attempts_are_throttled_per_key() {
        let now = Timestamp::from_millisecond(1_800_000_000_000).expect("in range");
        let (throttle, one, other) = (AttemptThrottle::default(), KeyId::new(now), KeyId::new(now));
        assert!(throttle.begin(one) && throttle.begin(other));
        assert!(!throttle.begin(one) && !throttle.begin(other));
    }
}

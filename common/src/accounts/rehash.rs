//! Keys come under another pepper (docs/rotation.md): a secret key when it is used, for only then its text is known, and a
//! publishable one at an operator's word, for it is kept whole.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use sqlx::{PgConnection, PgExecutor, PgPool};
use uuid::Uuid;

use crate::crypto::Peppers;
use crate::error::Result;
use crate::id::KeyId;

/// A process tries to move a key so often, whatever comes of it. While a new pepper is rolled out, those that have it and those
/// that have not would move the same key to and fro.
const AGAIN_AFTER: Duration = Duration::from_secs(60);
/// Keys of which that is remembered; at that many the memory is begun anew.
const MOST: usize = 10_000;
/// Publishable keys that are looked at, at once.
const PAGE: i64 = 500;

/// When a process has tried to move which key.
#[derive(Default)]
pub(super) struct Tries(Mutex<HashMap<KeyId, Instant>>);

impl Tries {
    /// Whether it is time for another try, which begins now.
    pub(super) fn begin(&self, key: KeyId) -> bool {
        let mut tries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if tries.get(&key).is_some_and(|tried| tried.elapsed() < AGAIN_AFTER) {
            return false;
        }
        if tries.len() >= MOST {
            tries.clear();
        }
        tries.insert(key, Instant::now());
        true
    }
}

/// Puts a key's hash under the current pepper, unless somebody else was faster.
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

/// Puts the publishable keys after this one under the current pepper, a page of them. Those that match under none of the
/// peppers stay as they are. Answers how many were moved, and after which to go on; none if that was all.
///
/// # Errors
/// Only the database's.
pub async fn rehash_publishable(
    tx: &mut PgConnection,
    peppers: &Peppers,
    after: Option<KeyId>,
) -> Result<(u64, Option<KeyId>)> {
    let rows = sqlx::query!(
        r#"SELECT id, key_hash, key_text AS "key_text!", pepper_id FROM api_keys
           WHERE kind = 'publishable' AND revoked_at IS NULL AND id > $1 ORDER BY id LIMIT $2"#,
        after.map_or(Uuid::nil(), KeyId::uuid),
        PAGE,
    )
    .fetch_all(&mut *tx)
    .await?;
    let mut moved = 0;
    for row in &rows {
        let settled = row.pepper_id.as_deref() == Some(&peppers.current().id()[..]);
        if !settled && peppers.match_any(&row.key_text, &row.key_hash) {
            moved += u64::from(rehash(&mut *tx, peppers, row.id, &row.key_text, &row.key_hash).await?);
        }
    }
    Ok((moved, rows.last().map(|row| row.id)))
}

/// Keys in use that are not known to be hashed under the current pepper.
#[derive(Clone, Copy, Debug)]
pub struct Elsewhere {
    /// Secret ones, which move when they are used.
    pub secret: i64,
    /// Publishable ones, which an operator can move.
    pub publishable: i64,
    /// Of all these, those that are known to be hashed under another.
    pub known: i64,
}

/// Counts them. It reads every key.
///
/// # Errors
/// Only the database's.
pub async fn hashed_elsewhere(db: &PgPool, peppers: &Peppers) -> Result<Elsewhere> {
    let counted = sqlx::query_as!(
        Elsewhere,
        r#"SELECT count(*) FILTER (WHERE kind = 'secret') AS "secret!",
                  count(*) FILTER (WHERE kind = 'publishable') AS "publishable!",
                  count(pepper_id) AS "known!"
           FROM api_keys
           WHERE pepper_id IS DISTINCT FROM $1 AND revoked_at IS NULL
             AND (expires_at IS NULL OR expires_at > clock_timestamp())"#,
        &peppers.current().id()[..],
    )
    .fetch_one(db)
    .await?;
    Ok(counted)
}

/// What a process that starts tries its peppers on: the texts and hashes of the newest and the oldest publishable key in use.
///
/// # Errors
/// Only the database's.
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
    use crate::time::Timestamp;

    #[test]
    fn a_key_is_not_tried_again_at_once() {
        let now = Timestamp::from_millisecond(1_800_000_000_000).expect("in range");
        let (tries, one, other) = (Tries::default(), KeyId::new(now), KeyId::new(now));
        assert!(tries.begin(one) && tries.begin(other));
        assert!(!tries.begin(one) && !tries.begin(other));
    }
}

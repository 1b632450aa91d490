//! Who holds a key. What was read of one is believed for a moment, so that a merchant who asks often is not looked up each
//! time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sqlx::PgPool;

use super::keys::key_id;
use super::rehash::{Tries, rehash};
use super::usage::Uses;
use super::{AccountTime, Caller, KeyKind, Mode, Rate};
use crate::capabilities::{Connected, Grants, Operation};
use crate::crypto::Peppers;
use crate::id::KeyId;

/// Keys remembered at most; at that many the memory is begun anew.
const MOST_KEYS: usize = 10_000;

/// Why a key was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// Malformed, unknown or revoked: the caller is not told which.
    #[error("the API key is not valid")]
    Refused,
    /// Postgres failed: nothing is known of the key.
    #[error("database: {0}")]
    Database(#[from] sqlx::Error),
}

/// The keys of all accounts, as one process knows them.
pub struct Keys {
    db: PgPool,
    peppers: Peppers,
    /// How long what was read is believed.
    believed_for: Duration,
    known: Mutex<HashMap<KeyId, Known>>,
    moves: Tries,
    uses: Uses,
}

#[derive(Clone)]
struct Known {
    read_at: Instant,
    hash: Arc<[u8]>,
    /// Under which pepper; none if that is not known.
    pepper_id: Option<[u8; 4]>,
    caller: Arc<Caller>,
}

impl Keys {
    /// Keys that are read anew when what is known of them is older than `believed_for`; so long after its revocation a key
    /// may still be accepted. It belongs to a runtime: when a key was used is noted by a task.
    pub fn new(db: PgPool, peppers: Peppers, believed_for: Duration) -> Self {
        let uses = Uses::noting_in(db.clone());
        Self { db, peppers, believed_for, known: Mutex::default(), moves: Tries::default(), uses }
    }

    /// After so long no process believes any more what it has read before.
    pub const fn believed_for(&self) -> Duration {
        self.believed_for
    }

    /// Whether this process has read this very secret key as valid before, however long ago, and nothing to the contrary since. It
    /// may have been revoked meanwhile: [`Self::authenticate`] says. Everybody has a publishable key, so that says nothing of who
    /// comes with it.
    pub fn has_seen_secret(&self, text: &str) -> bool {
        let hash = key_id(text).and_then(|id| {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            let known = known.get(&id).filter(|known| known.caller.key_kind == KeyKind::Secret);
            known.map(|known| Arc::clone(&known.hash))
        });
        hash.is_some_and(|hash| self.peppers.match_any(text, &hash))
    }

    /// Notes that a request was let in with this key: soon, and at most once a minute (`api_keys.last_used_at`).
    pub fn note_use(&self, key: KeyId) {
        self.uses.note(key);
    }

    /// Finds who holds the key: one round trip at most, and while a pepper is rotated sometimes one more.
    ///
    /// # Errors
    /// [`AuthError::Refused`], alike for a malformed, an unknown and a revoked key.
    pub async fn authenticate(&self, text: &str) -> Result<Arc<Caller>, AuthError> {
        let id = key_id(text).ok_or(AuthError::Refused)?;
        let known = match self.remembered(id) {
            Some(known) => known,
            None => self.look_up(id).await?,
        };
        // The kind and mode that the key's text claims are covered by the hash.
        if !self.peppers.match_any(text, &known.hash) {
            return Err(AuthError::Refused);
        }
        if self.peppers.is_rotating() && known.pepper_id != Some(self.peppers.current().id()) {
            self.move_to_current(id, text, &known).await;
        }
        Ok(known.caller)
    }

    /// Puts the key under the current pepper, now that its text is here. The request goes on whatever comes of it.
    async fn move_to_current(&self, id: KeyId, text: &str, known: &Known) {
        if !self.moves.begin(id) {
            return;
        }
        match rehash(&self.db, &self.peppers, id, text, &known.hash).await {
            // Somebody else has, or it has gone.
            Ok(false) => {}
            Ok(true) => {
                let mut remembered = self.known.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(entry) = remembered.get_mut(&id).filter(|entry| entry.hash == known.hash) {
                    entry.hash = self.peppers.current().hash(text).as_slice().into();
                    entry.pepper_id = Some(self.peppers.current().id());
                }
            }
            Err(error) => tracing::warn!(key = %id, %error, "a key stays under a former pepper for now"),
        }
    }

    fn remembered(&self, id: KeyId) -> Option<Known> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&id).filter(|known| known.read_at.elapsed() < self.believed_for).cloned()
    }

    async fn look_up(&self, id: KeyId) -> Result<Known, AuthError> {
        // Before the reading: what is revoked meanwhile is not believed for longer than was promised.
        let read_at = Instant::now();
        let found = read(&self.db, id).await?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Found { hash, pepper_id, caller }) = found else {
            known.remove(&id);
            return Err(AuthError::Refused);
        };
        let found = Known { read_at, hash: hash.into(), pepper_id, caller: Arc::new(caller) };
        if known.len() >= MOST_KEYS {
            known.clear();
        }
        known.insert(id, found.clone());
        Ok(found)
    }
}

/// A key as its row has it.
struct Found {
    hash: Vec<u8>,
    pepper_id: Option<[u8; 4]>,
    caller: Caller,
}

/// The hash of a key that is neither revoked nor past its end, and who holds it.
async fn read(db: &PgPool, id: KeyId) -> Result<Option<Found>, sqlx::Error> {
    let row = sqlx::query!(
        r#"SELECT k.key_hash, k.pepper_id, k.kind, k.entitlements, k.signing_secret, k.account_id, a.mode, a.provider_account_id, a.allowed_origins,
                  a.modifiers, a.partial_capture, a.partial_refund, a.rate_limit, a.burst, p.provider, p.unsupported,
                  p.provider = 'mock' OR p.credentials IS NOT NULL AS "connected!",
                  EXISTS (SELECT 1 FROM provider_accounts o
                          WHERE o.account_id = k.account_id AND (o.provider = 'mock' OR o.credentials IS NOT NULL)) AS "any_connected!",
                  EXISTS (SELECT 1 FROM test_clocks c WHERE c.account_id = k.account_id) AS "has_clock!"
           FROM api_keys k
           JOIN accounts a ON a.id = k.account_id
           JOIN provider_accounts p ON p.id = a.provider_account_id
           WHERE k.id = $1 AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > clock_timestamp())"#,
        id.uuid(),
    )
    .fetch_optional(db)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let unsupported =
        row.provider.unsupported().iter().map(|operation| operation.name().to_owned()).chain(row.unsupported).collect();
    let settings = [
        (row.partial_capture, Operation::PaymentsPartialCapture),
        (row.partial_refund, Operation::PaymentsPartialRefund),
    ];
    let forbidden = settings.into_iter().filter_map(|(allowed, operation)| (!allowed).then_some(operation));
    let test_only = Operation::ALL.iter().copied().filter(|operation| operation.is_test_only());
    let forbidden = forbidden.chain(test_only.filter(|_| row.mode == Mode::Live)).collect();
    let connected = Connected { current: row.connected, any: row.any_connected };
    let caller = Caller {
        key_id: id,
        key_kind: row.kind,
        account_id: row.account_id,
        mode: row.mode,
        time: AccountTime::new(row.account_id, row.has_clock),
        provider_account_id: row.provider_account_id,
        provider: row.provider,
        grants: Grants { entitlements: row.entitlements, unsupported, forbidden, connected },
        allowed_origins: row.allowed_origins,
        rate: row.rate_limit.zip(row.burst).map_or(Rate::default_of(row.mode), |(per_second, burst)| Rate {
            per_second: per_second.unsigned_abs(),
            burst: burst.unsigned_abs(),
        }),
        signing_secret: row.signing_secret,
        modifiers: row.modifiers,
    };
    let pepper_id = row.pepper_id.and_then(|id| id.try_into().ok());
    Ok(Some(Found { hash: row.key_hash, pepper_id, caller }))
}

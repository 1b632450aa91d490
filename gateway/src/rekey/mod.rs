//! `gateway reencrypt`: re-encrypts under the current key everything encrypted under an old one. Each batch is a
//! transaction that skips locked rows, so it can run while gateways serve, and can be stopped and restarted.

mod columns;

use std::time::Duration;

use serde::Serialize;
use sqlx::PgPool;

use crate::cards::{KeyRing, TokenHash, vault};
use crate::id::{AccountId, TransactionId};
use crate::{accounts, proxy, threeds};
use columns::Batch;

/// Passes over the columns at most; locked rows are retried in the next pass.
const MAX_PASSES: u32 = 10;
/// With this many unreadable rows a key must be missing, so it gives up.
const MAX_UNREADABLE: usize = 1_000;
const PASS_INTERVAL: Duration = Duration::from_millis(500);

/// The result of a run.
#[derive(Debug, Serialize)]
pub struct Summary {
    reencrypted: u64,
    /// Rows not encrypted under the current key.
    remaining: i64,
    /// Those of them that no key decrypts.
    unreadable: usize,
}

/// Row keys that no encryption key could decrypt, per column; they are skipped.
#[derive(Default)]
struct Unreadable {
    accounts: Vec<uuid::Uuid>,
    former_keys: Vec<uuid::Uuid>,
    cards: Vec<Vec<u8>>,
    field_numbers: Vec<Vec<u8>>,
    field_codes: Vec<Vec<u8>>,
    stored_tokens: Vec<Vec<u8>>,
    proxies: Vec<Vec<u8>>,
    challenges: Vec<uuid::Uuid>,
}

/// Re-encrypts everything that can be decrypted.
///
/// # Errors
/// Database errors. Committed batches stay re-encrypted.
pub async fn run(db: &PgPool, ring: &KeyRing) -> Result<Summary, sqlx::Error> {
    let mut skipped = Unreadable::default();
    let (mut reencrypted, mut passes) = (0, 0);
    loop {
        reencrypted += pass(db, ring, &mut skipped).await?;
        let (remaining, unreadable) = (remaining(db, ring).await?, skipped.count());
        passes += 1;
        let finished = remaining <= i64::try_from(unreadable).unwrap_or(i64::MAX);
        if finished || unreadable > MAX_UNREADABLE || passes == MAX_PASSES {
            return Ok(Summary { reencrypted, remaining, unreadable });
        }
        tokio::time::sleep(PASS_INTERVAL).await;
    }
}

impl Unreadable {
    fn count(&self) -> usize {
        self.accounts.len()
            + self.former_keys.len()
            + self.cards.len()
            + self.field_numbers.len()
            + self.field_codes.len()
            + self.stored_tokens.len()
            + self.proxies.len()
            + self.challenges.len()
    }
}

/// Processes every column once.
async fn pass(db: &PgPool, ring: &KeyRing, skipped: &mut Unreadable) -> Result<u64, sqlx::Error> {
    let mut done = 0;
    macro_rules! every_batch_of {
        ($column:ident, $context:expr) => {
            loop {
                let context = $context;
                let reseal = |key: &_, sealed: &[u8]| reencrypt(ring, sealed, &context(key));
                match columns::$column::batch(db, &ring.prefix(), &mut skipped.$column, &reseal).await? {
                    Batch::Reencrypted(count) => done += count,
                    Batch::Empty => break,
                }
                if skipped.count() > MAX_UNREADABLE {
                    return Ok(done);
                }
            }
        };
    }
    every_batch_of!(accounts, |id: &uuid::Uuid| accounts::secret_key_context(AccountId::from(*id)));
    every_batch_of!(former_keys, |id: &uuid::Uuid| accounts::secret_key_context(AccountId::from(*id)));
    every_batch_of!(cards, |hash: &Vec<u8>| vault::number_context(&TokenHash::from_bytes(hash)));
    every_batch_of!(field_numbers, |hash: &Vec<u8>| vault::number_context(&TokenHash::from_bytes(hash)));
    every_batch_of!(field_codes, |hash: &Vec<u8>| vault::code_context(&TokenHash::from_bytes(hash)));
    every_batch_of!(stored_tokens, |hash: &Vec<u8>| vault::stored_as_context(&TokenHash::from_bytes(hash)));
    every_batch_of!(proxies, |hash: &Vec<u8>| proxy::context(hash));
    every_batch_of!(challenges, |id: &uuid::Uuid| threeds::number_context(TransactionId::from(*id)));
    Ok(done)
}

fn reencrypt(ring: &KeyRing, sealed: &[u8], context: &str) -> Option<Vec<u8>> {
    Some(ring.seal(ring.open(sealed, context)?.expose(), context))
}

async fn remaining(db: &PgPool, ring: &KeyRing) -> Result<i64, sqlx::Error> {
    let prefix = ring.prefix();
    Ok(columns::accounts::remaining(db, &prefix).await?
        + columns::former_keys::remaining(db, &prefix).await?
        + columns::cards::remaining(db, &prefix).await?
        + columns::field_numbers::remaining(db, &prefix).await?
        + columns::field_codes::remaining(db, &prefix).await?
        + columns::stored_tokens::remaining(db, &prefix).await?
        + columns::proxies::remaining(db, &prefix).await?
        + columns::challenges::remaining(db, &prefix).await?)
}

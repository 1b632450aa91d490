//! `gateway reencrypt`: everything that an old key has encrypted, under the current one. It goes by batches, each a transaction
//! of its own that leaves out what another holds, so it runs beside serving processes and begins again where it was stopped.

mod store;

use std::time::Duration;

use serde::Serialize;
use sqlx::PgPool;

use crate::cards::{KeyRing, TokenHash, vault};
use crate::id::{AccountId, TransactionId};
use crate::{accounts, proxy, threeds};
use store::Batch;

/// What others held is tried so often again.
const ROUNDS: u32 = 10;
/// With so many that cannot be opened a key is missing, and there is no use in looking at every row.
const MOST_UNREADABLE: usize = 1_000;
const PAUSE: Duration = Duration::from_millis(500);

/// What was done, and what is left.
#[derive(Debug, Serialize)]
pub struct Done {
    reencrypted: u64,
    /// Under another key than the current one, or under one that is not known.
    remaining: i64,
    /// Of these, what none of the keys opens.
    unreadable: usize,
}

/// Keys of rows that none of the keys opens, by column, so that they are not taken again.
#[derive(Default)]
struct Unreadable {
    accounts: Vec<uuid::Uuid>,
    former_keys: Vec<uuid::Uuid>,
    cards: Vec<Vec<u8>>,
    field_numbers: Vec<Vec<u8>>,
    field_codes: Vec<Vec<u8>>,
    field_answers: Vec<Vec<u8>>,
    proxies: Vec<Vec<u8>>,
    challenges: Vec<uuid::Uuid>,
}

/// Re-encrypts until nothing is left that can be.
///
/// # Errors
/// Only the database's; what was done stays done.
pub async fn run(db: &PgPool, ring: &KeyRing) -> Result<Done, sqlx::Error> {
    let mut skipped = Unreadable::default();
    let (mut reencrypted, mut round) = (0, 0);
    loop {
        reencrypted += pass(db, ring, &mut skipped).await?;
        let (remaining, unreadable) = (remaining(db, ring).await?, skipped.count());
        round += 1;
        let nothing_more = remaining <= i64::try_from(unreadable).unwrap_or(i64::MAX);
        if nothing_more || unreadable > MOST_UNREADABLE || round == ROUNDS {
            return Ok(Done { reencrypted, remaining, unreadable });
        }
        tokio::time::sleep(PAUSE).await;
    }
}

impl Unreadable {
    fn count(&self) -> usize {
        self.accounts.len()
            + self.former_keys.len()
            + self.cards.len()
            + self.field_numbers.len()
            + self.field_codes.len()
            + self.field_answers.len()
            + self.proxies.len()
            + self.challenges.len()
    }
}

/// Every column once, to its end.
async fn pass(db: &PgPool, ring: &KeyRing, skipped: &mut Unreadable) -> Result<u64, sqlx::Error> {
    let mut done = 0;
    macro_rules! every_batch_of {
        ($column:ident, $context:expr) => {
            loop {
                let context = $context;
                let reseal = |key: &_, sealed: &[u8]| again(ring, sealed, &context(key));
                match store::$column::batch(db, &ring.prefix(), &mut skipped.$column, &reseal).await? {
                    Batch::Of(count) => done += count,
                    Batch::NoMore => break,
                }
                if skipped.count() > MOST_UNREADABLE {
                    return Ok(done);
                }
            }
        };
    }
    every_batch_of!(accounts, |id: &uuid::Uuid| accounts::secret_key_context(AccountId::from(*id)));
    every_batch_of!(former_keys, |id: &uuid::Uuid| accounts::secret_key_context(AccountId::from(*id)));
    every_batch_of!(cards, |hash: &Vec<u8>| vault::number_context(&TokenHash::read(hash)));
    every_batch_of!(field_numbers, |hash: &Vec<u8>| vault::number_context(&TokenHash::read(hash)));
    every_batch_of!(field_codes, |hash: &Vec<u8>| vault::code_context(&TokenHash::read(hash)));
    every_batch_of!(field_answers, |hash: &Vec<u8>| vault::stored_as_context(&TokenHash::read(hash)));
    every_batch_of!(proxies, |hash: &Vec<u8>| proxy::context(hash));
    every_batch_of!(challenges, |id: &uuid::Uuid| threeds::number_context(TransactionId::from(*id)));
    Ok(done)
}

fn again(ring: &KeyRing, sealed: &[u8], context: &str) -> Option<Vec<u8>> {
    Some(ring.seal(ring.open(sealed, context)?.expose(), context))
}

async fn remaining(db: &PgPool, ring: &KeyRing) -> Result<i64, sqlx::Error> {
    let prefix = ring.prefix();
    Ok(store::accounts::remaining(db, &prefix).await?
        + store::former_keys::remaining(db, &prefix).await?
        + store::cards::remaining(db, &prefix).await?
        + store::field_numbers::remaining(db, &prefix).await?
        + store::field_codes::remaining(db, &prefix).await?
        + store::field_answers::remaining(db, &prefix).await?
        + store::proxies::remaining(db, &prefix).await?
        + store::challenges::remaining(db, &prefix).await?)
}

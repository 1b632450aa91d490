//! Re-encrypts everything that is sealed under another key, or not for its place, with the current key for its place
//! (docs/rotation.md).
//!
//! It can run while processes serve requests. A ciphertext is replaced only if it is still the one that was read, so a
//! secret rotated concurrently is kept. Each batch is one transaction with its audit record, so a run can be
//! interrupted, repeated, and run twice concurrently.

mod columns;

use serde_json::json;
use sqlx::PgPool;
use uuid::Uuid;

use columns::{Batch, Column, Sealed};
use domain::audit::{AuditedTx, Entry};
use foundation::actor::Actor;
use foundation::config::ConfigError;
use foundation::crypto::{KeyRing, Place, SealedUnder, hex};
use foundation::db::Db;
use foundation::error::Result;

/// Maximum number of passes, to reach rows that changed concurrently.
const ROUNDS: u32 = 10;
/// Ciphertexts per page of a read-only pass.
const PAGE: i64 = 1_000;

/// Which keys the stored secrets are sealed under.
#[derive(Debug, Default)]
pub struct SealedSecrets {
    /// Secrets sealed under the current key for their place.
    pub current: u64,
    /// Secrets sealed under the current key for their row only, as the former version did.
    pub unbound: u64,
    /// Secrets sealed under another configured key.
    pub other: u64,
    /// Ids of rows in use whose secret no configured key opens.
    pub unreadable: Vec<String>,
}

/// Reads all sealed secrets and counts them by key. A secret no longer in use is counted only if it can be opened.
///
/// # Errors
/// Database errors only.
pub async fn sealed_secrets(db: &PgPool, ring: &KeyRing) -> Result<SealedSecrets> {
    let mut found = SealedSecrets::default();
    for column in Column::ALL {
        let mut after = Uuid::nil();
        while let Some(rows) = next(*column, db, &mut after, PAGE).await? {
            for row in rows {
                match ring.sealed_under(&row.sealed, &column.place(row.owner, row.id)) {
                    SealedUnder::Current => found.current += 1,
                    SealedUnder::CurrentUnbound(_) => found.unbound += 1,
                    SealedUnder::Other(_) => found.other += 1,
                    SealedUnder::None if row.in_use => found.unreadable.push(column.row(row.id)),
                    SealedUnder::None => {}
                }
            }
        }
    }
    Ok(found)
}

/// Re-encrypts all secrets sealed under another configured key or not for their place, `batch` rows per transaction.
/// Returns how many. From now on, processes that start seal new secrets for their place.
///
/// # Errors
/// Database errors only; committed batches remain.
pub async fn reencrypt(db: &Db, actor: &Actor, ring: &KeyRing, batch: i64) -> Result<u64> {
    bind_new_secrets(db, actor, ring).await?;
    let mut done = 0;
    for _ in 0..ROUNDS {
        let (mut replaced, mut expected) = (0, 0);
        for column in Column::ALL {
            let mut after = Uuid::nil();
            while let Some(rows) = next(*column, db, &mut after, batch).await? {
                let batch = reseal(*column, ring, rows);
                if batch.len() > 0 {
                    expected += batch.len();
                    replaced += replace(*column, db, actor, ring, &batch).await?;
                }
            }
        }
        done += replaced;
        if replaced == expected {
            break;
        }
    }
    Ok(done)
}

/// Makes the ring seal for places, if `reencrypt` has run or there was no account before this version: the former
/// version does not read such secrets.
///
/// # Errors
/// Database errors only.
pub async fn read_binding(db: &PgPool, ring: &KeyRing) -> Result<()> {
    let query = sqlx::query_scalar!(r#"SELECT EXISTS (SELECT FROM sealing WHERE bound) AS "bound!""#);
    if query.fetch_one(db).await? {
        ring.bind();
    }
    Ok(())
}

async fn bind_new_secrets(db: &Db, actor: &Actor, ring: &KeyRing) -> Result<()> {
    let mut act = AuditedTx::begin(db, actor).await?;
    let update = sqlx::query!("UPDATE sealing SET bound = true WHERE NOT bound");
    if update.execute(&mut **act).await?.rows_affected() == 0 {
        act.rollback().await?;
    } else {
        act.commit(&Entry { action: "secrets.bind", account: None, object: None, detail: json!({}) }).await?;
    }
    ring.bind();
    Ok(())
}

/// Returns the next page of rows; `None` at the end.
async fn next(column: Column, db: &PgPool, after: &mut Uuid, limit: i64) -> Result<Option<Vec<Sealed>>> {
    let rows = column.page(db, *after, limit).await?;
    let last = rows.last().map(|row| row.id);
    *after = last.unwrap_or(*after);
    Ok(last.map(|_| rows))
}

fn reseal(column: Column, ring: &KeyRing, rows: Vec<Sealed>) -> Batch {
    let mut batch = Batch::default();
    for row in rows {
        let place = column.place(row.owner, row.id);
        match ring.sealed_under(&row.sealed, &place) {
            SealedUnder::CurrentUnbound(plain) | SealedUnder::Other(plain) => {
                batch.push(row, ring.seal(plain.expose(), &place));
            }
            SealedUnder::Current | SealedUnder::None => {}
        }
    }
    batch
}

async fn replace(column: Column, db: &Db, actor: &Actor, ring: &KeyRing, batch: &Batch) -> Result<u64> {
    let mut act = AuditedTx::begin(db, actor).await?;
    let replaced = column.replace(&mut act, batch).await?;
    if replaced == 0 {
        act.rollback().await?;
        return Ok(0);
    }
    let detail = json!({"reencrypted": replaced, "under": hex(&ring.current().id())});
    let (action, object) = ("secrets.reencrypt", Some(column.name().to_owned()));
    act.commit(&Entry { action, account: None, object, detail }).await?;
    Ok(replaced)
}

/// Returns an error if the stored secrets were sealed under other keys: there are samples, and these keys open none of
/// them.
///
/// # Errors
/// Database errors only.
pub async fn wrong_keys(db: &PgPool, ring: &KeyRing) -> Result<Option<ConfigError>> {
    let samples = columns::samples(db).await?;
    let opens = |(place, sealed): &(Place, Vec<u8>)| ring.open(sealed, place).is_some();
    let problem = "opens no stored secret, and neither does OLD_ENCRYPTION_KEYS (docs/rotation.md, Wrong keys)";
    let wrong = !samples.is_empty() && !samples.iter().any(opens);
    Ok(wrong.then_some(ConfigError { name: "ENCRYPTION_KEY", problem }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use foundation::db;

    /// `bytea` columns without ciphertext have this suffix, or are listed below. A secret of an action lasts 10 minutes.
    const HASH: &str = "_hash";
    const OTHERS: [&str; 8] = [
        "api_keys.pepper_id",
        "logos.png",
        "user_actions.content",
        "user_actions.secret",
        "user_passkeys.credential_id",
        "user_passkeys.public_key",
        "users.passkey_handle",
        "_sqlx_migrations.checksum",
    ];

    #[tokio::test]
    async fn every_bytea_column_is_reencrypted_or_holds_a_hash() {
        let database = testkit::Database::create().await.expect("a database");
        let url = foundation::crypto::Secret::new(database.url().to_owned());
        let db = db::pool(&url, 1, "test").expect("a valid URL");
        let columns: Vec<String> = sqlx::query_scalar(
            "SELECT c.table_name || '.' || c.column_name FROM information_schema.columns c
             JOIN information_schema.tables t USING (table_schema, table_name)
             WHERE c.data_type = 'bytea' AND t.table_type = 'BASE TABLE'
               AND c.table_schema NOT IN ('pg_catalog', 'information_schema', 'gateway')",
        )
        .fetch_all(&db)
        .await
        .expect("the catalog");
        let sealed = |column: &&String| !column.ends_with(HASH) && !OTHERS.contains(&column.as_str());
        let mut found: Vec<_> = columns.iter().filter(sealed).map(String::as_str).collect();
        let mut known: Vec<_> = Column::ALL.iter().map(|column| column.name()).collect();
        found.sort_unstable();
        known.sort_unstable();
        assert_eq!(found, known, "every column with ciphertexts must be in Column::ALL");
        assert!(columns.len() > found.len() + 3, "the hash columns must be included: {columns:?}");
    }
}

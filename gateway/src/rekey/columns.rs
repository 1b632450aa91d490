//! The encrypted columns, with the statements that re-encrypt them.

/// Rows per batch.
const ROWS: i64 = 200;

/// The result of a batch.
pub(super) enum Batch {
    /// This many rows were re-encrypted; there may be more.
    Reencrypted(u64),
    /// No rows were left.
    Empty,
}

/// An encrypted column: its table, primary key and name. Rows not under the current key lie in two ranges of the index
/// on the ciphertext's prefix: below and above the current key's prefix.
macro_rules! column {
    ($name:ident, $key:ty, $table:literal, $id:literal, $sealed:literal) => {
        pub(super) mod $name {
            use super::{Batch, ROWS};
            use sqlx::PgPool;

            /// Re-encrypts unlocked rows that are not under the key of this prefix. Rows that cannot be decrypted are
            /// added to `skipped`.
            pub(crate) async fn batch(
                db: &PgPool,
                prefix: &[u8],
                skipped: &mut Vec<$key>,
                reseal: &(dyn Fn(&$key, &[u8]) -> Option<Vec<u8>> + Sync),
            ) -> Result<Batch, sqlx::Error> {
                let mut tx = foundation::db::begin(db).await?;
                let rows = sqlx::query!(
                    r#"SELECT key AS "key!", sealed AS "sealed!" FROM (SELECT "#
                        + $id
                        + " AS key, "
                        + $sealed
                        + " AS sealed FROM gateway."
                        + $table
                        + " WHERE "
                        + $sealed
                        + " IS NOT NULL AND substring("
                        + $sealed
                        + " FROM 1 FOR 5) < $1 AND "
                        + $id
                        + " <> ALL ($2) ORDER BY substring("
                        + $sealed
                        + " FROM 1 FOR 5) LIMIT $3 FOR NO KEY UPDATE SKIP LOCKED) AS below
                        UNION ALL SELECT key, sealed FROM (SELECT "
                        + $id
                        + " AS key, "
                        + $sealed
                        + " AS sealed FROM gateway."
                        + $table
                        + " WHERE "
                        + $sealed
                        + " IS NOT NULL AND substring("
                        + $sealed
                        + " FROM 1 FOR 5) > $1 AND "
                        + $id
                        + " <> ALL ($2) ORDER BY substring("
                        + $sealed
                        + " FROM 1 FOR 5) LIMIT $3 FOR NO KEY UPDATE SKIP LOCKED) AS above",
                    prefix,
                    &*skipped,
                    ROWS,
                )
                .fetch_all(&mut *tx)
                .await?;
                if rows.is_empty() {
                    return Ok(Batch::Empty);
                }
                let mut done = 0;
                for row in rows {
                    let Some(sealed) = reseal(&row.key, &row.sealed) else {
                        skipped.push(row.key);
                        continue;
                    };
                    sqlx::query!(
                        "UPDATE gateway." + $table + " SET " + $sealed + " = $2 WHERE " + $id + " = $1",
                        row.key,
                        sealed,
                    )
                    .execute(&mut *tx)
                    .await?;
                    done += 1;
                }
                tx.commit().await?;
                Ok(Batch::Reencrypted(done))
            }

            /// Rows that are not under the key of this prefix.
            pub(crate) async fn remaining(db: &PgPool, prefix: &[u8]) -> Result<i64, sqlx::Error> {
                sqlx::query_scalar!(
                    "SELECT (SELECT count(*) FROM gateway."
                        + $table
                        + " WHERE "
                        + $sealed
                        + " IS NOT NULL AND substring("
                        + $sealed
                        + " FROM 1 FOR 5) < $1)
                        + (SELECT count(*) FROM gateway."
                        + $table
                        + " WHERE "
                        + $sealed
                        + " IS NOT NULL AND substring("
                        + $sealed
                        + r#" FROM 1 FOR 5) > $1) AS "remaining!""#,
                    prefix,
                )
                .fetch_one(db)
                .await
            }
        }
    };
}

column!(accounts, uuid::Uuid, "accounts", "id", "secret_key_sealed");
column!(former_keys, uuid::Uuid, "former_keys", "account_id", "secret_key_sealed");
column!(cards, Vec<u8>, "cards", "token_hash", "number");
column!(field_numbers, Vec<u8>, "field_tokens", "token_hash", "number");
column!(field_codes, Vec<u8>, "field_tokens", "token_hash", "security_code");
column!(stored_tokens, Vec<u8>, "field_tokens", "token_hash", "stored_as");
column!(proxies, Vec<u8>, "proxy_numbers", "proxy_hash", "number");
column!(challenges, uuid::Uuid, "transactions", "id", "number");

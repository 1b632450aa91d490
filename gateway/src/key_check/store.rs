//! SQL of the data that keys are checked against.

use sqlx::PgPool;

use crate::cards::TokenHash;
use crate::id::AccountId;

/// The secret keys of the oldest and the newest account.
pub(super) async fn secrets(db: &PgPool) -> Result<Vec<(AccountId, Vec<u8>)>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"(SELECT id AS "id!", secret_key_sealed AS "sealed!" FROM gateway.accounts ORDER BY id LIMIT 1)
           UNION ALL (SELECT id, secret_key_sealed FROM gateway.accounts ORDER BY id DESC LIMIT 1)"#,
    )
    .fetch_all(db)
    .await?;
    Ok(rows.into_iter().map(|row| (row.id.into(), row.sealed)).collect())
}

/// Two cards of the vault, encrypted under different keys if there are several.
pub(super) async fn cards(db: &PgPool) -> Result<Vec<(TokenHash, Vec<u8>)>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"(SELECT token_hash AS "hash!", number AS "sealed!" FROM gateway.cards
            ORDER BY substring(number FROM 1 FOR 5) LIMIT 1)
           UNION ALL (SELECT token_hash, number FROM gateway.cards ORDER BY substring(number FROM 1 FOR 5) DESC LIMIT 1)"#,
    )
    .fetch_all(db)
    .await?;
    Ok(rows.into_iter().map(|row| (TokenHash::from_bytes(&row.hash), row.sealed)).collect())
}

/// Whether some account's API key is hashed under this pepper, or no account's pepper is known.
pub(super) async fn pepper_matches(db: &PgPool, id: &[u8]) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM gateway.accounts WHERE pepper_id = $1)
               OR NOT EXISTS (SELECT FROM gateway.accounts WHERE pepper_id IS NOT NULL) AS "fits!""#,
        id,
    )
    .fetch_one(db)
    .await
}

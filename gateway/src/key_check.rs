//! Checks that the configured keys match the stored data. With wrong keys a gateway would reject every merchant and
//! decrypt no card.

use foundation::config::{self, ConfigError};
use foundation::crypto::hex;
use sqlx::PgPool;

use crate::accounts::{CryptoKeys, secret_key_context};
use crate::cards::{TokenHash, vault};
use crate::id::AccountId;

/// Returns the variable whose key matches none of a sample: some accounts' secret keys, some cards of the vault, and the
/// pepper ids recorded with accounts. An empty database matches any key. Read-only, so processes may run it
/// concurrently.
///
/// # Errors
/// Database errors.
pub async fn key_mismatch(db: &PgPool, crypto: &CryptoKeys) -> Result<Option<ConfigError>, sqlx::Error> {
    let ring = &crypto.card_keys;
    let (secrets, cards) = (sample_secrets(db).await?, sample_cards(db).await?);
    let secret = |(id, sealed): &(AccountId, Vec<u8>)| ring.open(sealed, &secret_key_context(*id)).is_some();
    let card = |(hash, sealed): &(TokenHash, Vec<u8>)| ring.open(sealed, &vault::number_context(hash)).is_some();
    let nothing = secrets.is_empty() && cards.is_empty();
    if !nothing && !secrets.iter().any(secret) && !cards.iter().any(card) {
        let problem = "decrypts nothing of the stored data, and neither does GATEWAY_OLD_CARD_KEYS (docs/rotation.md, Wrong keys)";
        return Ok(Some(ConfigError { name: "GATEWAY_CARD_KEY", problem }));
    }
    let problem = "matches none of the stored hashes (docs/rotation.md, Wrong keys)";
    let fits = pepper_matches(db, &crypto.pepper.id()).await?;
    Ok((!fits).then_some(ConfigError { name: "GATEWAY_PEPPER", problem }))
}

/// Reads how API keys are hashed, and returns once the keys are known to match, or at once if they are `unchecked`. Waits
/// while Postgres does not respond.
///
/// # Errors
/// The keys do not match. The process must not continue.
pub async fn wait_for_matching_keys(db: &PgPool, crypto: &CryptoKeys, unchecked: bool) -> Result<(), ConfigError> {
    let check = async || {
        crypto.read_binding(db).await?;
        if unchecked { Ok(None) } else { key_mismatch(db, crypto).await }
    };
    config::wait_until_consistent(check).await?;
    if unchecked {
        tracing::warn!("KEYS_UNCHECKED is set: the keys were not compared with the stored data");
        return Ok(());
    }
    let (card_key, pepper) = (hex(&crypto.card_keys.prefix()[1..]), hex(&crypto.pepper.id()));
    tracing::info!(card_key, pepper, "the keys match the stored data");
    Ok(())
}

/// The secret keys of the oldest and the newest account.
async fn sample_secrets(db: &PgPool) -> Result<Vec<(AccountId, Vec<u8>)>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"(SELECT id AS "id!", secret_key_sealed AS "sealed!" FROM gateway.accounts ORDER BY id LIMIT 1)
           UNION ALL (SELECT id, secret_key_sealed FROM gateway.accounts ORDER BY id DESC LIMIT 1)"#,
    )
    .fetch_all(db)
    .await?;
    Ok(rows.into_iter().map(|row| (row.id.into(), row.sealed)).collect())
}

/// Two cards of the vault, encrypted under different keys if there are several.
async fn sample_cards(db: &PgPool) -> Result<Vec<(TokenHash, Vec<u8>)>, sqlx::Error> {
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
async fn pepper_matches(db: &PgPool, id: &[u8]) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM gateway.accounts WHERE pepper_id = $1)
               OR NOT EXISTS (SELECT FROM gateway.accounts WHERE pepper_id IS NOT NULL) AS "fits!""#,
        id,
    )
    .fetch_one(db)
    .await
}

//! Checks that the configured keys match the stored data. With wrong keys a gateway would reject every merchant and
//! decrypt no card.

mod store;

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
    let (secrets, cards) = (store::secrets(db).await?, store::cards(db).await?);
    let secret = |(id, sealed): &(AccountId, Vec<u8>)| ring.open(sealed, &secret_key_context(*id)).is_some();
    let card = |(hash, sealed): &(TokenHash, Vec<u8>)| ring.open(sealed, &vault::number_context(hash)).is_some();
    let nothing = secrets.is_empty() && cards.is_empty();
    if !nothing && !secrets.iter().any(secret) && !cards.iter().any(card) {
        let problem = "decrypts nothing of the stored data, and neither does GATEWAY_OLD_CARD_KEYS (docs/rotation.md, Wrong keys)";
        return Ok(Some(ConfigError { name: "GATEWAY_CARD_KEY", problem }));
    }
    let problem = "matches none of the stored hashes (docs/rotation.md, Wrong keys)";
    let fits = store::pepper_matches(db, &crypto.pepper.id()).await?;
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

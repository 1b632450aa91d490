//! Checks that the configured keys are those that the stored data was created with. A process with other keys would
//! reject every merchant and hold back all webhooks.

use sqlx::PgPool;

use crate::keys::reencrypt::{read_binding, wrong_keys};
use domain::accounts::key_samples;
use foundation::config::{self, ConfigError};
use foundation::crypto::{KeyRing, Peppers, hex};
use foundation::error::Result;

#[derive(Clone)]
pub struct Keys {
    /// Keys that encrypt and decrypt.
    pub encryption: KeyRing,
    /// Peppers that API keys are hashed with; `None` in processes that need none.
    pub peppers: Option<Peppers>,
}

/// Returns the environment variable whose key matches none of the samples: the newest and the oldest secret of each kind
/// in use, and publishable keys, whose plain text is stored. `None` for an empty database.
///
/// # Errors
/// Database errors only.
pub async fn key_mismatch(db: &PgPool, keys: &Keys) -> Result<Option<ConfigError>> {
    if let Some(mismatch) = wrong_keys(db, &keys.encryption).await? {
        return Ok(Some(mismatch));
    }
    let Some(peppers) = &keys.peppers else { return Ok(None) };
    let samples = key_samples(db).await?;
    let mismatch = !samples.is_empty() && !samples.iter().any(|(text, hash)| peppers.match_any(text, hash));
    let problem = "matches no stored hash, and neither does OLD_KEY_PEPPERS (docs/rotation.md, Wrong keys)";
    Ok(mismatch.then_some(ConfigError { name: "KEY_PEPPER", problem }))
}

/// Reads how secrets are sealed, and returns once it is known that the keys match, or at once if they are `unchecked`.
/// Waits until Postgres responds.
///
/// # Errors
/// The keys do not match. The process must stop.
pub async fn require_matching_keys(db: &PgPool, keys: &Keys, unchecked: bool) -> std::result::Result<(), ConfigError> {
    let check = async || {
        read_binding(db, &keys.encryption).await?;
        if unchecked { Ok(None) } else { key_mismatch(db, keys).await }
    };
    config::wait_until_consistent(check).await?;
    if unchecked {
        tracing::warn!("KEYS_UNCHECKED is set: the keys were not compared with the stored data");
        return Ok(());
    }
    let pepper = keys.peppers.as_ref().map(|peppers| hex(&peppers.current().id()));
    let (encryption, rotating) = (hex(&keys.encryption.current().id()), keys.encryption.is_rotating());
    tracing::info!(encryption, rotating, pepper, "the keys match the stored data");
    Ok(())
}

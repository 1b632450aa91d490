//! Whether the keys of the environment are those that what is stored was made with. A process with others would refuse every
//! merchant, and hold all webhooks.

use sqlx::PgPool;

use super::reencrypt::wrong_keys;
use crate::accounts::key_samples;
use crate::config::{self, ConfigError};
use crate::crypto::{KeyRing, Peppers, hex};
use crate::error::Result;

/// The keys of a process.
#[derive(Clone)]
pub struct Keys {
    /// Those that seal and open.
    pub encryption: KeyRing,
    /// Those under which API keys are hashed, of who needs them.
    pub peppers: Option<Peppers>,
}

/// Says which variable has a key that fits nothing of what is looked at: the newest and the oldest of each kind of secret in use, and
/// of publishable keys, which are kept whole. None of an empty database.
///
/// # Errors
/// Only the database's.
pub async fn misfit(db: &PgPool, keys: &Keys) -> Result<Option<ConfigError>> {
    if let Some(wrong) = wrong_keys(db, &keys.encryption).await? {
        return Ok(Some(wrong));
    }
    let Some(peppers) = &keys.peppers else { return Ok(None) };
    let samples = key_samples(db).await?;
    let wrong = !samples.is_empty() && !samples.iter().any(|(text, hash)| peppers.match_any(text, hash));
    let problem =
        "makes none of the hashes that are stored, and neither does OLD_KEY_PEPPERS (docs/rotation.md, Wrong keys)";
    Ok(wrong.then_some(ConfigError { name: "KEY_PEPPER", problem }))
}

/// Returns when it is known that the keys fit; until Postgres answers, it is not.
///
/// # Errors
/// They do not. The process must not go on.
pub async fn keys_fit(db: &PgPool, keys: &Keys) -> std::result::Result<(), ConfigError> {
    config::fits(async || misfit(db, keys).await).await?;
    let pepper = keys.peppers.as_ref().map(|peppers| hex(&peppers.current().id()));
    let (encryption, rotating) = (hex(&keys.encryption.current().id()), keys.encryption.is_rotating());
    tracing::info!(encryption, rotating, pepper, "the keys fit what is stored");
    Ok(())
}

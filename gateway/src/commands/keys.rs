//! The configured keys.

use anyhow::Result;
use sqlx::PgPool;

use crate::accounts::CryptoKeys;
use crate::{config, key_check};

/// The configured keys, unless they do not match the stored data: nothing created with wrong keys would be usable.
pub(super) async fn checked_keys(db: &PgPool) -> Result<CryptoKeys> {
    let crypto = crypto_keys()?;
    crypto.read_binding(db).await?;
    if !foundation::config::keys_unchecked()?
        && let Some(wrong) = key_check::key_mismatch(db, &crypto).await?
    {
        return Err(wrong.into());
    }
    Ok(crypto)
}

pub(super) fn crypto_keys() -> Result<CryptoKeys> {
    Ok(CryptoKeys::new(config::pepper()?, config::card_keys()?))
}

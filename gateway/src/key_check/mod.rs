//! Whether the keys of the environment are those that what is stored was made with. A gateway with others would refuse every
//! merchant, and read no card.

mod store;

use common::config::{self, ConfigError};
use common::crypto::hex;
use sqlx::PgPool;

use crate::accounts::{Vaulting, secret_key_context};
use crate::cards::{TokenHash, vault};
use crate::id::AccountId;

/// Says which variable has a key that fits nothing of what is looked at: some accounts' secrets and some cards of the vault, and
/// the peppers that are noted with accounts. None of an empty database. It writes nothing, so any number may look at once.
///
/// # Errors
/// Only the database's.
pub async fn misfit(db: &PgPool, vaulting: &Vaulting) -> Result<Option<ConfigError>, sqlx::Error> {
    let ring = &vaulting.card_keys;
    let (secrets, cards) = (store::secrets(db).await?, store::cards(db).await?);
    let secret = |(id, sealed): &(AccountId, Vec<u8>)| ring.open(sealed, &secret_key_context(*id)).is_some();
    let card = |(hash, sealed): &(TokenHash, Vec<u8>)| ring.open(sealed, &vault::number_context(hash)).is_some();
    let nothing = secrets.is_empty() && cards.is_empty();
    if !nothing && !secrets.iter().any(secret) && !cards.iter().any(card) {
        let problem =
            "opens nothing of what is stored, and neither does GATEWAY_OLD_CARD_KEYS (docs/rotation.md, Wrong keys)";
        return Ok(Some(ConfigError { name: "GATEWAY_CARD_KEY", problem }));
    }
    let problem = "made none of the hashes that are stored (docs/rotation.md, Wrong keys)";
    let fits = store::pepper_fits(db, &vaulting.pepper.id()).await?;
    Ok((!fits).then_some(ConfigError { name: "GATEWAY_PEPPER", problem }))
}

/// Returns when it is known that the keys fit; until Postgres answers, it is not.
///
/// # Errors
/// They do not. The process must not go on.
pub async fn keys_fit(db: &PgPool, vaulting: &Vaulting) -> Result<(), ConfigError> {
    config::fits(async || misfit(db, vaulting).await).await?;
    let (card_key, pepper) = (hex(&vaulting.card_keys.prefix()[1..]), hex(&vaulting.pepper.id()));
    tracing::info!(card_key, pepper, "the keys fit what is stored");
    Ok(())
}

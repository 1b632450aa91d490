//! Whether the keys of the environment fit what is stored, and whether old ones may go (docs/rotation.md).

use sqlx::PgPool;

use super::{Finding, Grade};
use crate::accounts::hashed_elsewhere;
use crate::crypto::Peppers;
use crate::error::Result;
use crate::flows::key_check::{Keys, misfit};
use crate::flows::reencrypt::sealed_secrets;
use crate::id::KeyId;

/// Ids that are named.
const NAMED: usize = 5;
/// A replaced key that ends so soon, in seconds.
const ENDS_SOON: f64 = 3.0 * 3600.0;

/// Asks everything about keys that can be known. It reads every secret and every key.
///
/// # Errors
/// The database's.
pub async fn examine_keys(db: &PgPool, keys: &Keys) -> Result<Vec<Finding>> {
    if let Some(wrong) = misfit(db, keys).await? {
        return Ok(vec![Finding::of(
            "keys",
            Grade::Bad,
            wrong.to_string(),
            "give ctl the keys that the processes have",
        )]);
    }
    let mut found = vec![sealed(db, keys).await?];
    if let Some(peppers) = &keys.peppers {
        found.push(hashed(db, peppers).await?);
    }
    found.push(ending(db).await?);
    Ok(found)
}

async fn sealed(db: &PgPool, keys: &Keys) -> Result<Finding> {
    const CHECK: &str = "encryption key";
    let secrets = sealed_secrets(db, &keys.encryption).await?;
    let (current, other, lost) = (secrets.current, secrets.other, secrets.unreadable.len());
    if lost > 0 {
        let named = secrets.unreadable.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
        let advice = "give the key that sealed them in OLD_ENCRYPTION_KEYS; if it is lost: docs/rotation.md";
        return Ok(Finding::of(
            CHECK,
            Grade::Bad,
            format!("no key given opens the secrets of {lost}: {named}"),
            advice,
        ));
    }
    if other > 0 {
        let says = format!("{other} of {} secrets are sealed under an old one, which must stay", current + other);
        return Ok(Finding::of(CHECK, Grade::Warn, says, "once all processes have the new one: ctl reencrypt"));
    }
    let may_go = if keys.encryption.is_rotating() { "; nothing stored needs OLD_ENCRYPTION_KEYS" } else { "" };
    Ok(Finding::ok(CHECK, format!("all {current} secrets are sealed under it{may_go}")))
}

async fn hashed(db: &PgPool, peppers: &Peppers) -> Result<Finding> {
    const CHECK: &str = "key pepper";
    let elsewhere = hashed_elsewhere(db, peppers).await?;
    let (secret, publishable) = (elsewhere.secret, elsewhere.publishable);
    if !peppers.is_rotating() {
        // Those of which it is not known are from before it was written down, and that is no fault.
        return Ok(match elsewhere.known {
            0 => Finding::ok(CHECK, "no key is known to be hashed under another"),
            lost => {
                let says = format!("{lost} keys are refused: they are hashed under one that is not given");
                let advice = "give it in OLD_KEY_PEPPERS; ctl keys list --not-moved names them; if they are not missed, revoke them";
                Finding::of(CHECK, Grade::Bad, says, advice)
            }
        });
    }
    Ok(match (secret, publishable) {
        (0, 0) => Finding::ok(CHECK, "all keys in use are hashed under it; OLD_KEY_PEPPERS may go"),
        (_, 1..) => {
            let says = format!("{publishable} publishable and {secret} secret keys are not under it yet");
            Finding::of(CHECK, Grade::Warn, says, "once all processes have the new one: ctl keys rehash")
        }
        _ => Finding::ok(
            CHECK,
            format!(
                "{secret} secret keys were not used since it is there: OLD_KEY_PEPPERS must stay, or they are refused"
            ),
        ),
    })
}

async fn ending(db: &PgPool) -> Result<Finding> {
    let ids: Vec<KeyId> = sqlx::query_scalar!(
        "SELECT id FROM api_keys WHERE revoked_at IS NULL
            AND expires_at BETWEEN clock_timestamp() AND clock_timestamp() + make_interval(secs => $1)
         ORDER BY id LIMIT 1000",
        ENDS_SOON,
    )
    .fetch_all(db)
    .await?;
    if ids.is_empty() {
        return Ok(Finding::ok("replaced keys", "none ends within three hours"));
    }
    let named = ids.iter().take(NAMED).map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let advice = "make sure that the merchant has changed over";
    Ok(Finding::of("replaced keys", Grade::Warn, format!("end within three hours: {}: {named}", ids.len()), advice))
}

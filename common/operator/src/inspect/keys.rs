//! Whether the configured keys match the stored data, and whether old ones can be removed (docs/rotation.md).

use sqlx::PgPool;

use super::{Finding, Severity};
use domain::accounts::{keys_under_other_peppers, sharing_a_gateway_account};
use engine::keys::key_check::{Keys, key_mismatch};
use engine::keys::reencrypt::{read_binding, sealed_secrets};
use foundation::crypto::Peppers;
use foundation::error::Result;
use foundation::id::KeyId;

/// Maximum number of ids listed.
const MAX_NAMED: usize = 5;
/// How soon a replaced key must expire to be reported, in seconds.
const EXPIRES_WITHIN: f64 = 3.0 * 3600.0;

/// Runs all checks of keys. Reads every secret and every key.
///
/// # Errors
/// Database errors only.
pub async fn examine_keys(db: &PgPool, keys: &Keys) -> Result<Vec<Finding>> {
    read_binding(db, &keys.encryption).await?;
    if let Some(wrong) = key_mismatch(db, keys).await? {
        return Ok(vec![Finding::of(
            "keys",
            Severity::Bad,
            wrong.to_string(),
            "configure ctl with the keys that the processes use",
        )]);
    }
    let mut findings = vec![sealed(db, keys).await?];
    if let Some(peppers) = &keys.peppers {
        findings.push(hashed(db, peppers).await?);
    }
    findings.push(expiring(db).await?);
    findings.push(gateway_accounts(db, keys).await?);
    Ok(findings)
}

async fn gateway_accounts(db: &PgPool, keys: &Keys) -> Result<Finding> {
    const CHECK: &str = "gateway accounts";
    let shared = sharing_a_gateway_account(db, &keys.encryption).await?;
    Ok(match shared.first() {
        None => Finding::ok(CHECK, "no two accounts share one"),
        Some((name, accounts)) => {
            let accounts = accounts.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let advice = "their books cannot be separated; connect each to an account of its own for new payments";
            Finding::of(CHECK, Severity::Bad, format!("{accounts} share the gateway account {name}"), advice)
        }
    })
}

async fn sealed(db: &PgPool, keys: &Keys) -> Result<Finding> {
    const CHECK: &str = "encryption key";
    let secrets = sealed_secrets(db, &keys.encryption).await?;
    let (current, other, lost) = (secrets.current, secrets.other, secrets.unreadable.len());
    if lost > 0 {
        let named = secrets.unreadable.iter().take(MAX_NAMED).cloned().collect::<Vec<_>>().join(", ");
        let advice = "add the key that sealed them to OLD_ENCRYPTION_KEYS; if it is lost: docs/rotation.md";
        return Ok(Finding::of(
            CHECK,
            Severity::Bad,
            format!("no configured key opens {lost} secrets: {named}"),
            advice,
        ));
    }
    if other > 0 {
        let message = format!("{other} of {} secrets are sealed under an old key, which must be kept", current + other);
        return Ok(Finding::of(CHECK, Severity::Warn, message, "once all processes use the new key: ctl reencrypt"));
    }
    let unbound = secrets.unbound;
    if unbound > 0 && keys.encryption.binds() {
        let message = format!("{unbound} of {} secrets are not bound to their account and column", current + unbound);
        let advice = "restart every api and worker that was started before the last ctl reencrypt, and run it again";
        return Ok(Finding::of(CHECK, Severity::Warn, message, advice));
    }
    if unbound > 0 {
        let message = format!(
            "all {} secrets are sealed under it; ctl reencrypt will bind them to their account",
            current + unbound
        );
        return Ok(Finding::ok(CHECK, message));
    }
    let may_go = if keys.encryption.is_rotating() { "; nothing stored needs OLD_ENCRYPTION_KEYS" } else { "" };
    Ok(Finding::ok(CHECK, format!("all {current} secrets are sealed under it{may_go}")))
}

async fn hashed(db: &PgPool, peppers: &Peppers) -> Result<Finding> {
    const CHECK: &str = "key pepper";
    let elsewhere = keys_under_other_peppers(db, peppers).await?;
    let (secret, publishable) = (elsewhere.secret, elsewhere.publishable);
    if !peppers.is_rotating() {
        // Keys whose pepper is unknown predate its recording, which is no error.
        return Ok(match elsewhere.known {
            0 => Finding::ok(CHECK, "no key is known to be hashed with another pepper"),
            lost => {
                let message = format!("{lost} keys are refused: they are hashed with a pepper that is not configured");
                let advice = "add it to OLD_KEY_PEPPERS; ctl keys list --not-moved lists the keys; revoke those no longer needed";
                Finding::of(CHECK, Severity::Bad, message, advice)
            }
        });
    }
    Ok(match (secret, publishable) {
        (0, 0) => Finding::ok(CHECK, "all keys in use are hashed with it; OLD_KEY_PEPPERS can be removed"),
        (_, 1..) => {
            let message = format!("{publishable} publishable and {secret} secret keys are not hashed with it yet");
            Finding::of(CHECK, Severity::Warn, message, "once all processes use the new pepper: ctl keys rehash")
        }
        _ => Finding::ok(
            CHECK,
            format!("{secret} secret keys were not used since it was added: keep OLD_KEY_PEPPERS, or they are refused"),
        ),
    })
}

async fn expiring(db: &PgPool) -> Result<Finding> {
    let ids: Vec<KeyId> = sqlx::query_scalar!(
        "SELECT id FROM api_keys WHERE revoked_at IS NULL
            AND expires_at BETWEEN clock_timestamp() AND clock_timestamp() + make_interval(secs => $1)
         ORDER BY id LIMIT 1000",
        EXPIRES_WITHIN,
    )
    .fetch_all(db)
    .await?;
    if ids.is_empty() {
        return Ok(Finding::ok("replaced keys", "none expires within three hours"));
    }
    let named = ids.iter().take(MAX_NAMED).map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let advice = "make sure that the merchant uses the new key";
    Ok(Finding::of(
        "replaced keys",
        Severity::Warn,
        format!("expire within three hours: {}: {named}", ids.len()),
        advice,
    ))
}

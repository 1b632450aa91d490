//! Deliveries that cannot be signed.

use std::time::Duration;

use sqlx::PgPool;

use super::claim::{Claimed, release};
use foundation::error::Result;
use foundation::id::WebhookEndpointId;

/// The delay before a secret is tried again is the time for which it could not be decrypted, within these bounds.
const MIN_DELAY: Duration = Duration::from_secs(5);
const MAX_DELAY: Duration = Duration::from_secs(60);

/// Releases a claimed delivery that cannot be signed. It uses up no attempt and does not count as a failure of the
/// endpoint, but no delivery of the endpoint is claimed for some seconds. The delay grows up to a minute. Of several
/// concurrent deliveries that fail, only the first sets the delay.
///
/// # Errors
/// Database errors only; then the delivery is due again when its lease ends.
pub async fn hold_unsigned(db: &PgPool, claimed: &Claimed) -> Result<()> {
    // Varies the delay by up to a tenth.
    let chance = f64::from(foundation::crypto::random_u32()) / f64::from(u32::MAX);
    sqlx::query!(
        "UPDATE webhook_endpoints SET
             signing_failed_since = coalesce(signing_failed_since, clock_timestamp()),
             signing_retry_at = clock_timestamp() + make_interval(secs => (0.9 + 0.2 * $4::float8) * least($3::float8,
                 greatest($2::float8, extract(epoch FROM clock_timestamp() - signing_failed_since)::float8)))
         WHERE id = $1 AND (signing_retry_at IS NULL OR signing_retry_at <= clock_timestamp())",
        claimed.endpoint_id.uuid(),
        MIN_DELAY.as_secs_f64(),
        MAX_DELAY.as_secs_f64(),
        chance,
    )
    .execute(db)
    .await?;
    release(db, std::slice::from_ref(claimed)).await
}

/// Records that deliveries to an endpoint can be signed again.
///
/// # Errors
/// Database errors only; then the next delivery records it.
pub async fn clear_signing_failure(db: &PgPool, endpoint: WebhookEndpointId) -> Result<()> {
    sqlx::query!(
        "UPDATE webhook_endpoints SET signing_failed_since = NULL, signing_retry_at = NULL
         WHERE id = $1 AND signing_failed_since IS NOT NULL",
        endpoint.uuid(),
    )
    .execute(db)
    .await?;
    Ok(())
}

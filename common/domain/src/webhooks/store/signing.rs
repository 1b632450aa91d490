//! Queries for endpoints whose deliveries cannot be signed.

use std::time::Duration;

use sqlx::PgPool;

use foundation::error::Result;
use foundation::id::WebhookEndpointId;

/// The delay before a secret is tried again is the time for which it could not be decrypted, within these bounds.
const MIN_DELAY: Duration = Duration::from_secs(5);
const MAX_DELAY: Duration = Duration::from_secs(60);

/// Of several concurrent deliveries that fail, only the first sets the delay. `chance`, random in 0..=1, varies it by
/// up to a tenth.
pub(in crate::webhooks) async fn hold(db: &PgPool, endpoint: WebhookEndpointId, chance: f64) -> Result<()> {
    sqlx::query!(
        "UPDATE webhook_endpoints SET
             signing_failed_since = coalesce(signing_failed_since, clock_timestamp()),
             signing_retry_at = clock_timestamp() + make_interval(secs => (0.9 + 0.2 * $4::float8) * least($3::float8,
                 greatest($2::float8, extract(epoch FROM clock_timestamp() - signing_failed_since)::float8)))
         WHERE id = $1 AND (signing_retry_at IS NULL OR signing_retry_at <= clock_timestamp())",
        endpoint.uuid(),
        MIN_DELAY.as_secs_f64(),
        MAX_DELAY.as_secs_f64(),
        chance,
    )
    .execute(db)
    .await?;
    Ok(())
}

pub(in crate::webhooks) async fn release(db: &PgPool, endpoint: WebhookEndpointId) -> Result<()> {
    sqlx::query!(
        "UPDATE webhook_endpoints SET signing_failed_since = NULL, signing_retry_at = NULL
         WHERE id = $1 AND signing_failed_since IS NOT NULL",
        endpoint.uuid(),
    )
    .execute(db)
    .await?;
    Ok(())
}

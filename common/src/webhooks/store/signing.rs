//! The SQL of endpoints whose deliveries cannot be signed.

use std::time::Duration;

use sqlx::PgPool;

use crate::error::Result;
use crate::id::WebhookEndpointId;

/// The delay until a secret is tried again grows with the time for which it could not be decrypted, within these.
const SHORTEST: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_secs(60);

/// One of any number of deliveries that find it out together sets the delay, which `chance`, from 0 to 1, changes by up to a tenth.
pub(in crate::webhooks) async fn hold(db: &PgPool, endpoint: WebhookEndpointId, chance: f64) -> Result<()> {
    sqlx::query!(
        "UPDATE webhook_endpoints SET
             signing_failed_since = coalesce(signing_failed_since, clock_timestamp()),
             signing_retry_at = clock_timestamp() + make_interval(secs => (0.9 + 0.2 * $4::float8) * least($3::float8,
                 greatest($2::float8, extract(epoch FROM clock_timestamp() - signing_failed_since)::float8)))
         WHERE id = $1 AND (signing_retry_at IS NULL OR signing_retry_at <= clock_timestamp())",
        endpoint.uuid(),
        SHORTEST.as_secs_f64(),
        LONGEST.as_secs_f64(),
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

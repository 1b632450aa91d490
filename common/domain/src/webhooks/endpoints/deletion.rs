//! Deleting an endpoint.

use std::time::Duration;

use sqlx::{PgConnection, PgPool};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::idempotency;
use foundation::db;
use foundation::error::{Error, Result};
use foundation::id::{AccountId, WebhookEndpointId};
use foundation::time::Timestamp;

/// An attempt begins within this time of its claim, or the worker releases the delivery unsent. The deletion of an
/// endpoint waits this long for attempts that were claimed before it.
pub const START_WINDOW: Duration = Duration::from_secs(2);
/// How often a deletion checks whether attempts are still under way.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Deletes an endpoint. No attempt begins after this returns: a claim takes a key-share lock on the row, which this
/// lock waits for, and an attempt claimed before that begins within [`START_WINDOW`].
///
/// # Errors
/// [`Error::NotFound`], also for a deleted endpoint.
pub async fn delete(db: &PgPool, account: AccountId, id: WebhookEndpointId, now: Timestamp) -> Result<()> {
    let mut tx = db::begin(db).await?;
    if !lock_against_claims(&mut tx, account, id).await? {
        return Err(Error::no_such("webhook endpoint", id));
    }
    sqlx::query!(
        "UPDATE webhook_endpoints SET deleted_at = $3 WHERE account_id = $1 AND id = $2",
        account.uuid(),
        id.uuid(),
        now
    )
    .execute(&mut *tx)
    .await?;
    idempotency::delete_for_endpoint(&mut tx, account, id).await?;
    tx.commit().await?;
    wait_for_claimed_attempts(db, account, id).await;
    Ok(())
}

/// Locks an endpoint `FOR UPDATE`. A weaker lock would not conflict with claims, which lock `FOR KEY SHARE`.
async fn lock_against_claims(tx: &mut PgConnection, account: AccountId, id: WebhookEndpointId) -> Result<bool> {
    let found = sqlx::query_scalar!(
        "SELECT id FROM webhook_endpoints WHERE account_id = $1 AND id = $2 AND deleted_at IS NULL FOR UPDATE",
        account.uuid(),
        id.uuid()
    )
    .fetch_optional(tx)
    .await?;
    Ok(found.is_some())
}

/// Waits until no claimed attempt on a deleted endpoint can still begin. The deletion is already committed, so a
/// failure here must not become an error: if the leases cannot be read, this waits for the whole window.
async fn wait_for_claimed_attempts(db: &PgPool, account: AccountId, id: WebhookEndpointId) {
    let until = Instant::now() + START_WINDOW;
    while let Ok(leased) = timeout_at(until, has_leases(db, account, id)).await {
        match leased {
            Ok(false) => return,
            Ok(true) => {}
            Err(error) => tracing::warn!(%error, endpoint = %id, "leases could not be read; still waiting"),
        }
        sleep_until(until.min(Instant::now() + POLL_INTERVAL)).await;
    }
}

/// Whether attempts on an endpoint are claimed. Only due deliveries are read, because only those are claimed.
async fn has_leases(db: &PgPool, account: AccountId, id: WebhookEndpointId) -> Result<bool> {
    let found = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM webhook_pending WHERE account_id = $1 AND endpoint_id = $2
                          AND due_at <= (SELECT clock_timestamp()) AND lease_until > clock_timestamp()) AS "found!""#,
        account.uuid(),
        id.uuid()
    )
    .fetch_one(db)
    .await?;
    Ok(found)
}

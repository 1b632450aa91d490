//! Claiming due deliveries, and releasing those that were not attempted.

use std::time::Duration;

use sqlx::PgPool;
use uuid::Uuid;

use crate::accounts::Mode;
use foundation::error::Result;
use foundation::id::{AccountId, EventId, WebhookDeliveryId, WebhookEndpointId};
use foundation::time::Timestamp;

/// How long a claim lasts: longer than [`super::ATTEMPT_TIMEOUT`] plus the time to record the result.
pub const LEASE: Duration = Duration::from_secs(30);

/// A delivery claimed by this worker until its lease ends.
#[derive(Debug)]
pub struct Claimed {
    pub id: WebhookDeliveryId,
    pub account_id: AccountId,
    /// The account's mode, which decides which addresses are allowed.
    pub mode: Mode,
    pub endpoint_id: WebhookEndpointId,
    pub event_id: EventId,
    /// When the event happened.
    pub happened_at: Timestamp,
    /// When the delivery was written.
    pub created_at: Timestamp,
    /// Starts at 1.
    pub attempt: i16,
    /// The delivery that this replay repeats.
    pub replay_of: Option<WebhookDeliveryId>,
    /// A test of the endpoint, which is not retried.
    pub is_test: bool,
    /// The fencing token of this claim.
    pub fence: i64,
    pub url: String,
    /// The bytes to send.
    pub payload: String,
    /// The signing secret, encrypted.
    pub secret: Vec<u8>,
    /// After a rotation, the previous secret, which signs too.
    pub previous_secret: Option<Vec<u8>>,
    /// The last delivery to the endpoint could not be signed.
    pub signing_failed: bool,
}

/// Claims up to the given number of due deliveries of each endpoint, oldest first. Skips endpoints that are disabled,
/// deleted or paused, and events past the retention period.
///
/// A claim locks the endpoint, and a deletion waits for that lock. A worker that starts its claimed attempts only
/// within [`crate::webhooks::START_WINDOW`] therefore starts none after the deletion was acknowledged.
///
/// # Errors
/// Database errors only.
pub async fn claim(db: &PgPool, capacity: &[(WebhookEndpointId, i64)]) -> Result<Vec<Claimed>> {
    let (endpoints, free): (Vec<Uuid>, Vec<i64>) = capacity.iter().map(|(id, free)| (id.uuid(), *free)).unzip();
    Ok(sqlx::query_as!(
        Claimed,
        r#"WITH endpoint AS MATERIALIZED (
               SELECT locked.*, w.free FROM unnest($1::uuid[], $2::bigint[]) AS w (id, free)
               CROSS JOIN LATERAL (
                   SELECT e.id, e.url, e.secret, e.signing_failed_since IS NOT NULL AS signing_failed,
                       CASE WHEN e.previous_secret_until > clock_timestamp() THEN e.previous_secret END AS previous_secret
                   FROM webhook_endpoints e
                   WHERE e.id = w.id AND e.deleted_at IS NULL AND e.status = 'enabled'
                     AND (e.paused_until IS NULL OR e.paused_until <= clock_timestamp())
                     AND (e.signing_retry_at IS NULL OR e.signing_retry_at <= clock_timestamp())
                   -- An endpoint that another transaction has locked does not delay the others; the sweep wakes it again.
                   FOR KEY SHARE SKIP LOCKED) locked),
           due AS MATERIALIZED (
               -- Skips expired events, whose deliveries close_expired closes. Events are looked up one by one.
               SELECT oldest.* FROM endpoint e CROSS JOIN LATERAL (
                   SELECT q.account_id, q.id, v.payload, v.created_at AS happened_at,
                          v.type = 'webhook_endpoint.test' AS is_test FROM webhook_pending q
                   CROSS JOIN LATERAL (SELECT type, payload, created_at FROM events WHERE id = q.event_id LIMIT 1) v
                   WHERE q.endpoint_id = e.id AND q.due_at <= (SELECT clock_timestamp())
                     AND (q.lease_until IS NULL OR q.lease_until < clock_timestamp())
                   ORDER BY q.due_at LIMIT e.free FOR NO KEY UPDATE OF q SKIP LOCKED) oldest),
           claimed AS (
               UPDATE webhook_pending p
               SET lease_until = clock_timestamp() + make_interval(secs => $3), fence = p.fence + 1
               FROM due WHERE p.account_id = due.account_id AND p.id = due.id
               RETURNING p.id, p.account_id, p.endpoint_id, p.event_id, due.happened_at, p.created_at, p.attempt, p.replay_of,
                   p.fence, due.payload, due.is_test)
           SELECT p.id, p.account_id, a.mode, p.endpoint_id, p.event_id, p.happened_at, p.created_at, p.attempt,
                  p.replay_of, p.is_test AS "is_test!", p.fence, e.url, p.payload, e.secret, e.previous_secret, e.signing_failed AS "signing_failed!"
           FROM claimed p
           JOIN endpoint e ON e.id = p.endpoint_id
           JOIN accounts a ON a.id = p.account_id"#,
        &endpoints,
        &free,
        LEASE.as_secs_f64(),
    )
    .fetch_all(db)
    .await?)
}

/// Releases claimed deliveries that were not attempted: they are due as before. Those that another transaction has locked
/// are due when their leases expire.
///
/// # Errors
/// Database errors only.
pub async fn release(db: &PgPool, claimed: &[Claimed]) -> Result<()> {
    let mut claimed: Vec<&Claimed> = claimed.iter().collect();
    claimed.sort_by_key(|claimed| claimed.id);
    let accounts: Vec<Uuid> = claimed.iter().map(|claimed| claimed.account_id.uuid()).collect();
    let ids: Vec<Uuid> = claimed.iter().map(|claimed| claimed.id.uuid()).collect();
    let fences: Vec<i64> = claimed.iter().map(|claimed| claimed.fence).collect();
    sqlx::query!(
        "WITH held AS MATERIALIZED (
             SELECT locked.account_id, locked.id FROM unnest($1::uuid[], $2::uuid[], $3::bigint[]) AS c (account_id, id, fence)
             CROSS JOIN LATERAL (SELECT p.account_id, p.id FROM webhook_pending p
                 WHERE p.account_id = c.account_id AND p.id = c.id AND p.fence = c.fence FOR NO KEY UPDATE SKIP LOCKED) locked)
         UPDATE webhook_pending p SET lease_until = NULL
         FROM held WHERE p.account_id = held.account_id AND p.id = held.id",
        &accounts,
        &ids,
        &fences,
    )
    .execute(db)
    .await?;
    Ok(())
}

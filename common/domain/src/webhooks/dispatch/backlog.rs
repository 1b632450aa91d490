//! Pending deliveries: which are due, late, or can no longer be attempted.

use std::time::Duration;

use sqlx::PgPool;

use super::attempt::Failure;
use crate::webhooks::status::{DeliveryStatus, DisabledReason};
use foundation::error::Result;
use foundation::id::WebhookEndpointId;

/// How many undeliverable deliveries one call closes at most.
pub const CLOSING_BATCH: i64 = 1_000;
/// Metrics count at most this many deliveries, so that counting a long backlog stays cheap.
pub const COUNT_LIMIT: i64 = 100_000;
/// Deliveries are normally attempted within seconds; one that has been due for longer than this is late.
const LATE_AFTER: Duration = Duration::from_secs(180);
const EXPIRED: &str = "the event is past its retention period";

/// Starts a statement with the CTEs `backlog`, the ids of the endpoints with pending deliveries and a final NULL, and `e`,
/// these endpoints. It is a loose index scan, so the cost depends on the number of endpoints and not on the length of
/// their backlogs.
macro_rules! by_endpoint {
    ($query:ident, $rest:tt, $($arg:expr),* $(,)?) => {
        sqlx::$query!(
            "WITH RECURSIVE backlog AS (
                 (SELECT endpoint_id FROM webhook_pending ORDER BY endpoint_id LIMIT 1)
                 UNION ALL
                 SELECT (SELECT p.endpoint_id FROM webhook_pending p WHERE p.endpoint_id > b.endpoint_id
                         ORDER BY p.endpoint_id LIMIT 1)
                 FROM backlog b WHERE b.endpoint_id IS NOT NULL),
             e AS (
                 SELECT e.* FROM backlog b
                 CROSS JOIN LATERAL (SELECT * FROM webhook_endpoints WHERE id = b.endpoint_id OFFSET 0) e)" + $rest,
            $($arg),*
        )
    };
}

/// Endpoints with unclaimed deliveries that have been due for `late`. The cost depends on the number of endpoints with
/// a backlog, not on the length of a backlog.
///
/// # Errors
/// Database errors only.
pub async fn endpoints_due(db: &PgPool, late: Duration) -> Result<Vec<WebhookEndpointId>> {
    Ok(by_endpoint!(
        query_scalar,
        r#" SELECT e.id FROM e
           WHERE e.deleted_at IS NULL AND e.status = 'enabled'
             AND (e.paused_until IS NULL OR e.paused_until <= clock_timestamp())
             AND (e.signing_retry_at IS NULL OR e.signing_retry_at <= clock_timestamp())
             AND EXISTS (SELECT 1 FROM webhook_pending p
                         WHERE p.endpoint_id = e.id
                         AND p.due_at <= (SELECT clock_timestamp() - make_interval(secs => $1))
                         AND (p.lease_until IS NULL OR p.lease_until < clock_timestamp()))"#,
        late.as_secs_f64(),
    )
    .fetch_all(db)
    .await?)
}

/// Closes pending deliveries to endpoints that are disabled or deleted. They are kept as failed deliveries without an
/// attempt, and can be replayed. Returns how many, at most [`CLOSING_BATCH`]. Leaves deliveries that a worker has
/// claimed to that worker.
///
/// # Errors
/// Database errors only.
pub async fn close_undeliverable(db: &PgPool) -> Result<u64> {
    let done = by_endpoint!(
        query,
        ", unwanted AS (
             SELECT p.account_id, p.id, e.deleted_at IS NOT NULL AS deleted
             FROM e
             JOIN LATERAL (
                 SELECT q.account_id, q.id FROM webhook_pending q
                 WHERE q.endpoint_id = e.id AND (q.lease_until IS NULL OR q.lease_until < clock_timestamp())
                 LIMIT $1 FOR UPDATE SKIP LOCKED) p ON true
             WHERE e.deleted_at IS NOT NULL OR e.status = 'disabled'
             LIMIT $1),
         closed AS (
             DELETE FROM webhook_pending p USING unwanted u WHERE p.account_id = u.account_id AND p.id = u.id
             RETURNING p.*, u.deleted)
         INSERT INTO webhook_deliveries
             (id, account_id, endpoint_id, event_id, attempt, replay_of, status, failure, created_at)
         SELECT id, account_id, endpoint_id, event_id, attempt, replay_of, $4,
             CASE WHEN deleted THEN $2 ELSE $3 END, created_at FROM closed",
        CLOSING_BATCH,
        Failure::EndpointDeleted.name(),
        Failure::EndpointDisabled.name(),
        DeliveryStatus::Failed as DeliveryStatus,
    )
    .execute(db)
    .await?;
    Ok(done.rows_affected())
}

/// Closes, in the same way, due deliveries of events past the retention period, such as replays of an old month that
/// were still pending when its partition was dropped. Returns how many, at most [`CLOSING_BATCH`]. Considers only
/// endpoints whose oldest due delivery has an expired event; others behind it may be expired too. A delivery with an
/// expired event further back reaches the front once those before it have been attempted. Claims skip it until then.
///
/// # Errors
/// Database errors only.
pub async fn close_expired(db: &PgPool) -> Result<u64> {
    let done = by_endpoint!(
        query,
        ", forgotten AS (
             SELECT p.account_id, p.id
             FROM backlog b
             JOIN LATERAL (
                 SELECT q.event_id FROM webhook_pending q
                 WHERE q.endpoint_id = b.endpoint_id AND q.due_at <= (SELECT clock_timestamp())
                   AND (q.lease_until IS NULL OR q.lease_until < clock_timestamp())
                 ORDER BY q.due_at LIMIT 1) oldest ON (SELECT e.id FROM events e WHERE e.id = oldest.event_id LIMIT 1) IS NULL
             JOIN LATERAL (
                 SELECT q.account_id, q.id, q.event_id FROM webhook_pending q
                 WHERE q.endpoint_id = b.endpoint_id AND q.due_at <= (SELECT clock_timestamp())
                   AND (q.lease_until IS NULL OR q.lease_until < clock_timestamp())
                 ORDER BY q.due_at LIMIT $1 FOR UPDATE SKIP LOCKED) p
                 ON (SELECT e.id FROM events e WHERE e.id = p.event_id LIMIT 1) IS NULL
             LIMIT $1),
         closed AS (
             DELETE FROM webhook_pending p USING forgotten f WHERE p.account_id = f.account_id AND p.id = f.id
             RETURNING p.*)
         INSERT INTO webhook_deliveries
             (id, account_id, endpoint_id, event_id, attempt, replay_of, status, failure, failure_message, created_at)
         SELECT id, account_id, endpoint_id, event_id, attempt, replay_of, $3, $2, $4, created_at FROM closed",
        CLOSING_BATCH,
        Failure::EventExpired.name(),
        DeliveryStatus::Failed as DeliveryStatus,
        EXPIRED,
    )
    .execute(db)
    .await?;
    Ok(done.rows_affected())
}

/// Pending deliveries, and the state of their endpoints.
#[derive(Debug)]
pub struct Backlog {
    /// Deliveries that are due now. `due` and `waiting` together count at most [`COUNT_LIMIT`].
    pub due: i64,
    /// Deliveries whose next attempt is in the future.
    pub waiting: i64,
    /// How long the oldest due delivery has been due.
    pub oldest_due_seconds: f64,
    /// Enabled endpoints that are neither failing nor paused, but have deliveries that are late.
    pub endpoints_late: i64,
    /// Endpoints with pending deliveries whose last attempt failed.
    pub endpoints_failing: i64,
    /// Endpoints with pending deliveries that cannot be signed.
    pub endpoints_unsigned: i64,
    /// The number of disabled endpoints by reason.
    pub disabled: Vec<(DisabledReason, i64)>,
}

/// Reads the backlog.
///
/// # Errors
/// Database errors only.
pub async fn backlog(db: &PgPool) -> Result<Backlog> {
    let row = sqlx::query!(
        r#"WITH RECURSIVE backlog AS (
               (SELECT endpoint_id, due_at FROM webhook_pending ORDER BY endpoint_id, due_at LIMIT 1)
               UNION ALL
               SELECT next.endpoint_id, next.due_at FROM backlog b CROSS JOIN LATERAL (
                   SELECT p.endpoint_id, p.due_at FROM webhook_pending p WHERE p.endpoint_id > b.endpoint_id
                   ORDER BY p.endpoint_id, p.due_at LIMIT 1) next),
           counted AS (SELECT due_at FROM webhook_pending LIMIT $1)
           SELECT (SELECT count(*) FROM counted WHERE due_at <= clock_timestamp()) AS "due!",
                  (SELECT count(*) FROM counted WHERE due_at > clock_timestamp()) AS "waiting!",
                  greatest((SELECT extract(epoch FROM clock_timestamp() - min(due_at)) FROM backlog), 0)::float8
                      AS "oldest_due_seconds!""#,
        COUNT_LIMIT,
    )
    .fetch_one(db)
    .await?;
    let disabled = sqlx::query!(
        r#"SELECT disabled_reason AS "reason!: DisabledReason", count(*) AS "count!" FROM webhook_endpoints
           WHERE deleted_at IS NULL AND status = 'disabled' GROUP BY disabled_reason"#
    )
    .fetch_all(db)
    .await?;
    let disabled = disabled.into_iter().map(|row| (row.reason, row.count)).collect();
    let [endpoints_late, endpoints_failing, endpoints_unsigned] = count_unhealthy_endpoints(db).await?;
    Ok(Backlog {
        due: row.due,
        waiting: row.waiting,
        oldest_due_seconds: row.oldest_due_seconds,
        endpoints_late,
        endpoints_failing,
        endpoints_unsigned,
        disabled,
    })
}

/// The number of endpoints with a backlog that are late, failing, or unsigned. The cost depends on the number of
/// endpoints.
async fn count_unhealthy_endpoints(db: &PgPool) -> Result<[i64; 3]> {
    let row = by_endpoint!(
        query,
        r#" SELECT count(*) FILTER (WHERE e.failing_since IS NOT NULL) AS "failing!",
                  count(*) FILTER (WHERE e.signing_failed_since IS NOT NULL) AS "unsigned!",
                  count(*) FILTER (WHERE e.failing_since IS NULL AND e.signing_failed_since IS NULL
                      AND (e.paused_until IS NULL OR e.paused_until <= clock_timestamp() - make_interval(secs => $1))
                      AND EXISTS (SELECT 1 FROM webhook_pending p
                          WHERE p.endpoint_id = e.id
                            AND p.due_at <= (SELECT clock_timestamp() - make_interval(secs => $1))
                            AND (p.lease_until IS NULL OR p.lease_until < clock_timestamp()))) AS "late!"
           FROM e
           WHERE e.deleted_at IS NULL AND e.status = 'enabled'"#,
        LATE_AFTER.as_secs_f64(),
    )
    .fetch_one(db)
    .await?;
    Ok([row.late, row.failing, row.unsigned])
}

//! Queries for delivery attempts.

use std::time::Duration;

use sqlx::PgPool;
use uuid::Uuid;

use crate::webhooks::dispatch::{Attempted, Backlog, COUNT_LIMIT, Claimed, Failure, LATE_AFTER, MAX_FAILURE_GAP};
use crate::webhooks::{DeliveryStatus, DisabledReason};
use foundation::error::Result;
use foundation::id::{AccountId, WebhookEndpointId};
use foundation::time::Timestamp;

const EXPIRED: &str = "the event is past its retention period";

pub(in crate::webhooks) async fn claim(
    db: &PgPool,
    capacity: &[(WebhookEndpointId, i64)],
    lease: Duration,
) -> Result<Vec<Claimed>> {
    let (endpoints, free): (Vec<Uuid>, Vec<i64>) = capacity.iter().map(|(id, free)| (id.uuid(), *free)).unzip();
    let rows = sqlx::query_as!(
        Claimed,
        r#"WITH endpoint AS MATERIALIZED (
               SELECT e.id, e.url, e.secret, w.free, e.signing_failed_since IS NOT NULL AS signing_failed,
                      CASE WHEN e.previous_secret_until > clock_timestamp() THEN e.previous_secret END AS previous_secret
               FROM unnest($1::uuid[], $2::bigint[]) AS w (id, free) JOIN webhook_endpoints e ON e.id = w.id
               WHERE e.deleted_at IS NULL AND e.status = 'enabled'
                 AND (e.paused_until IS NULL OR e.paused_until <= clock_timestamp())
                 AND (e.signing_retry_at IS NULL OR e.signing_retry_at <= clock_timestamp())
               -- Whoever holds an endpoint, to change or delete it, holds up that one alone; the sweep names it again.
               FOR KEY SHARE OF e SKIP LOCKED),
           claimed AS (
               UPDATE webhook_pending p
               SET lease_until = clock_timestamp() + make_interval(secs => $3), fence = p.fence + 1
               -- What there is nothing to send of is passed over, and closed by close_forgotten. Events are looked up one by one.
               FROM endpoint e CROSS JOIN LATERAL (
                   SELECT q.account_id, q.id, v.payload, v.created_at AS happened_at FROM webhook_pending q
                   CROSS JOIN LATERAL (SELECT payload, created_at FROM events WHERE id = q.event_id LIMIT 1) v
                   WHERE q.endpoint_id = e.id AND q.due_at <= (SELECT clock_timestamp())
                     AND (q.lease_until IS NULL OR q.lease_until < clock_timestamp())
                   ORDER BY q.due_at LIMIT e.free FOR NO KEY UPDATE OF q SKIP LOCKED) due
               WHERE p.account_id = due.account_id AND p.id = due.id
               RETURNING p.id, p.account_id, p.endpoint_id, p.event_id, due.happened_at, p.created_at, p.attempt, p.replay_of,
                   p.fence, due.payload)
           SELECT p.id, p.account_id, a.mode, p.endpoint_id, p.event_id, p.happened_at, p.created_at, p.attempt,
                  p.replay_of, p.fence, e.url, p.payload, e.secret, e.previous_secret, e.signing_failed AS "signing_failed!"
           FROM claimed p
           JOIN endpoint e ON e.id = p.endpoint_id
           JOIN accounts a ON a.id = p.account_id"#,
        &endpoints,
        &free,
        lease.as_secs_f64(),
    )
    .fetch_all(db)
    .await?;
    Ok(rows)
}

pub(in crate::webhooks) async fn release(db: &PgPool, claimed: &[Claimed]) -> Result<()> {
    let mut claimed: Vec<&Claimed> = claimed.iter().collect();
    claimed.sort_by_key(|claimed| claimed.id);
    let accounts: Vec<Uuid> = claimed.iter().map(|claimed| claimed.account_id.uuid()).collect();
    let ids: Vec<Uuid> = claimed.iter().map(|claimed| claimed.id.uuid()).collect();
    let fences: Vec<i64> = claimed.iter().map(|claimed| claimed.fence).collect();
    sqlx::query!(
        "WITH held AS MATERIALIZED (
             SELECT locked.account_id, locked.id FROM unnest($1::uuid[], $2::uuid[], $3::bigint[]) AS c (account_id, id, fence)
             CROSS JOIN LATERAL (SELECT p.account_id, p.id FROM webhook_pending p
                 WHERE p.account_id = c.account_id AND p.id = c.id AND p.fence = c.fence FOR NO KEY UPDATE) locked)
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

/// An endpoint to disable.
pub(in crate::webhooks) struct Failing {
    pub(in crate::webhooks) id: WebhookEndpointId,
    pub(in crate::webhooks) account_id: AccountId,
    pub(in crate::webhooks) reason: DisabledReason,
}

/// The attempts as columns, because `unnest` takes one array per column.
#[derive(Default)]
struct Columns<'a> {
    ids: Vec<Uuid>,
    accounts: Vec<Uuid>,
    endpoints: Vec<Uuid>,
    events: Vec<Uuid>,
    attempts: Vec<i16>,
    replays_of: Vec<Option<Uuid>>,
    fences: Vec<i64>,
    failures: Vec<Option<&'static str>>,
    statuses: Vec<Option<i16>>,
    bodies: Vec<Option<&'a str>>,
    messages: Vec<Option<&'a str>>,
    durations_ms: Vec<i32>,
    attempted_at: Vec<Timestamp>,
    next_after_s: Vec<Option<f64>>,
    paused_for_s: Vec<Option<f64>>,
    created_at: Vec<Timestamp>,
}

impl<'a> Columns<'a> {
    fn of(rows: &'a [(&Attempted, Option<Duration>)]) -> Self {
        let mut columns = Self::default();
        for (attempt, next_after) in rows {
            let claimed = &attempt.claimed;
            columns.ids.push(claimed.id.uuid());
            columns.accounts.push(claimed.account_id.uuid());
            columns.endpoints.push(claimed.endpoint_id.uuid());
            columns.events.push(claimed.event_id.uuid());
            columns.attempts.push(claimed.attempt);
            columns.replays_of.push(claimed.replay_of.map(|id| id.uuid()));
            columns.fences.push(claimed.fence);
            columns.failures.push(attempt.failure.map(|failure| failure.visible_to_merchant().name()));
            columns.statuses.push(attempt.response_status.and_then(|status| i16::try_from(status).ok()));
            columns.bodies.push(attempt.response_body.as_deref());
            columns.messages.push(attempt.failure_message.as_deref());
            columns.durations_ms.push(i32::try_from(attempt.duration.as_millis()).unwrap_or(i32::MAX));
            columns.attempted_at.push(attempt.attempted_at);
            columns.next_after_s.push(next_after.map(|after| after.as_secs_f64()));
            columns.paused_for_s.push(attempt.paused_for().map(|pause| pause.as_secs_f64()));
            columns.created_at.push(claimed.created_at);
        }
        columns
    }
}

pub(in crate::webhooks) async fn record(
    db: &PgPool,
    rows: &[(&Attempted, Option<Duration>)],
    disabled_after: Duration,
) -> Result<Vec<Failing>> {
    let columns = Columns::of(rows);
    let failing = sqlx::query!(
        r#"WITH made AS MATERIALIZED (
               SELECT m.*, clock_timestamp() + make_interval(secs => m.next_after) AS next_at,
                      clock_timestamp() + make_interval(secs => m.paused_for) AS paused_until,
                      clock_timestamp() - make_interval(secs => m.duration_ms / 1000.0) AS began_at
               FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[], $5::smallint[], $6::uuid[], $7::bigint[],
                   $8::text[], $9::smallint[], $10::text[], $11::int[], $12::timestamptz[], $13::float8[], $14::float8[],
                   $15::timestamptz[], $17::text[])
               AS m (id, account_id, endpoint_id, event_id, attempt, replay_of, fence, failure, response_status, response_body,
                     duration_ms, attempted_at, next_after, paused_for, created_at, failure_message)),
           -- In the order of ids, as they are given: another worker may record some of them too, once their lease has ended.
           locked AS MATERIALIZED (
               SELECT held.id FROM unnest($2::uuid[], $1::uuid[]) AS m (account_id, id)
               CROSS JOIN LATERAL (SELECT p.id FROM webhook_pending p
                   WHERE p.account_id = m.account_id AND p.id = m.id FOR UPDATE) held),
           -- Delivered, whoever holds it by now; or failed for the last time.
           ended AS (
               DELETE FROM webhook_pending p USING made m
               WHERE p.account_id = m.account_id AND p.id = m.id AND (m.id IN (SELECT id FROM locked)) IS TRUE
                 AND (m.failure IS NULL OR (m.next_at IS NULL AND p.fence = m.fence))
               RETURNING p.id, m.fence),
           -- The next attempt is a delivery of its own. There is none after a success, though it be recorded here beside a
           -- later failure.
           again AS (
               UPDATE webhook_pending p SET id = new_ulid(clock_timestamp()), attempt = p.attempt + 1, due_at = m.next_at,
                   lease_until = NULL, created_at = clock_timestamp()
               FROM made m
               WHERE p.account_id = m.account_id AND p.id = m.id AND p.fence = m.fence AND m.next_at IS NOT NULL
                 AND (m.id IN (SELECT id FROM locked)) IS TRUE AND m.id NOT IN (SELECT id FROM ended)
               RETURNING m.id, m.fence),
           -- By the fence too: if a lease ended between two attempts of one delivery, both may be recorded here.
           recorded AS (
               INSERT INTO webhook_deliveries
                   (id, account_id, endpoint_id, event_id, attempt, replay_of, status, failure, response_status, response_body,
                    failure_message, duration_ms, attempted_at, next_attempt_at, created_at)
               SELECT coalesce(ended.id, again.id, new_ulid(clock_timestamp())), m.account_id, m.endpoint_id, m.event_id,
                   m.attempt, m.replay_of,
                   CASE WHEN m.failure IS NULL THEN 'succeeded' ELSE 'failed' END::webhook_delivery_status,
                   m.failure, m.response_status, m.response_body, m.failure_message, m.duration_ms, m.attempted_at,
                   CASE WHEN again.id IS NOT NULL THEN m.next_at END, m.created_at
               FROM made m LEFT JOIN ended ON ended.id = m.id AND ended.fence = m.fence
                   LEFT JOIN again ON again.id = m.id AND again.fence = m.fence),
           -- In the order of ids, for two workers may record the same endpoints; whoever else holds one is not waited for.
           held AS MATERIALIZED (
               SELECT e.id, e.fresh_since FROM webhook_endpoints e WHERE e.id IN (SELECT endpoint_id FROM made)
                 AND (e.failing_since IS NOT NULL OR e.id IN (
                     SELECT endpoint_id FROM made WHERE failure IS NOT NULL OR paused_until IS NOT NULL))
               ORDER BY e.id FOR NO KEY UPDATE OF e SKIP LOCKED),
           -- What was begun before a fresh start says nothing of the endpoint as it is now.
           summary AS (
               SELECT m.endpoint_id, bool_or(m.failure IS NULL) AS works, min(m.began_at) AS since,
                      max(m.paused_until) AS paused_until, bool_or(m.response_status = 410) IS TRUE AS gone
               FROM made m JOIN held h ON h.id = m.endpoint_id
               WHERE m.began_at >= h.fresh_since GROUP BY m.endpoint_id),
           endpoint AS (
               UPDATE webhook_endpoints e SET
                   failing_since = CASE WHEN s.works THEN NULL
                       WHEN e.last_failed_at > clock_timestamp() - make_interval(secs => $18) THEN coalesce(e.failing_since, s.since)
                       ELSE s.since END,
                   last_failed_at = CASE WHEN s.works THEN e.last_failed_at ELSE clock_timestamp() END,
                   paused_until = greatest(e.paused_until, s.paused_until)
               FROM summary s
               WHERE e.id = s.endpoint_id
               RETURNING e.id, e.account_id, e.failing_since, s.gone)
           SELECT id AS "id!", account_id AS "account_id!", gone AS "gone!" FROM endpoint
           WHERE gone OR failing_since < clock_timestamp() - make_interval(secs => $16)"#,
        &columns.ids,
        &columns.accounts,
        &columns.endpoints,
        &columns.events,
        &columns.attempts,
        &columns.replays_of as &[Option<Uuid>],
        &columns.fences,
        &columns.failures as &[Option<&str>],
        &columns.statuses as &[Option<i16>],
        &columns.bodies as &[Option<&str>],
        &columns.durations_ms,
        &columns.attempted_at as &[Timestamp],
        &columns.next_after_s as &[Option<f64>],
        &columns.paused_for_s as &[Option<f64>],
        &columns.created_at as &[Timestamp],
        disabled_after.as_secs_f64(),
        &columns.messages as &[Option<&str>],
        MAX_FAILURE_GAP.as_secs_f64(),
    )
    .fetch_all(db)
    .await?;
    let failing = failing.into_iter().map(|row| Failing {
        id: row.id,
        account_id: row.account_id,
        reason: if row.gone { DisabledReason::Gone } else { DisabledReason::Failing },
    });
    Ok(failing.collect())
}

/// Starts a statement with the CTE `backlog`: the endpoints with pending deliveries, and a final NULL. It is a loose
/// index scan, so the cost depends on the number of endpoints and not on the length of their backlogs.
macro_rules! by_endpoint {
    ($query:ident, $rest:tt, $($arg:expr),* $(,)?) => {
        sqlx::$query!(
            "WITH RECURSIVE backlog AS (
                 (SELECT endpoint_id FROM webhook_pending ORDER BY endpoint_id LIMIT 1)
                 UNION ALL
                 SELECT (SELECT p.endpoint_id FROM webhook_pending p WHERE p.endpoint_id > b.endpoint_id
                         ORDER BY p.endpoint_id LIMIT 1)
                 FROM backlog b WHERE b.endpoint_id IS NOT NULL)" + $rest,
            $($arg),*
        )
    };
}

pub(in crate::webhooks) async fn endpoints_due(db: &PgPool, late: Duration) -> Result<Vec<WebhookEndpointId>> {
    let rows = by_endpoint!(
        query_scalar,
        r#" SELECT e.id FROM backlog b JOIN webhook_endpoints e ON e.id = b.endpoint_id
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
    .await?;
    Ok(rows)
}

/// Leaves deliveries that a worker has claimed to that worker.
pub(in crate::webhooks) async fn close_undeliverable(db: &PgPool, batch: i64) -> Result<u64> {
    let done = by_endpoint!(
        query,
        ", unwanted AS (
             SELECT p.account_id, p.id, e.deleted_at IS NOT NULL AS deleted
             FROM backlog b JOIN webhook_endpoints e ON e.id = b.endpoint_id
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
        batch,
        Failure::EndpointDeleted.name(),
        Failure::EndpointDisabled.name(),
        DeliveryStatus::Failed as DeliveryStatus,
    )
    .execute(db)
    .await?;
    Ok(done.rows_affected())
}

/// Considers only endpoints whose oldest due delivery has an expired event; others behind it may be expired too. A
/// delivery with an expired event further back reaches the front once those before it have been made. Claims skip it
/// until then.
pub(in crate::webhooks) async fn close_forgotten(db: &PgPool, batch: i64) -> Result<u64> {
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
        batch,
        Failure::EventExpired.name(),
        DeliveryStatus::Failed as DeliveryStatus,
        EXPIRED,
    )
    .execute(db)
    .await?;
    Ok(done.rows_affected())
}

pub(in crate::webhooks) async fn backlog(db: &PgPool) -> Result<Backlog> {
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
           FROM backlog b JOIN webhook_endpoints e ON e.id = b.endpoint_id
           WHERE e.deleted_at IS NULL AND e.status = 'enabled'"#,
        LATE_AFTER.as_secs_f64(),
    )
    .fetch_one(db)
    .await?;
    Ok([row.late, row.failing, row.unsigned])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounts::Mode;
    use foundation::id::{AccountId, EventId, WebhookDeliveryId};

    #[test]
    fn stored_failures_do_not_reveal_internal_host_names() {
        let at = Timestamp::MAX;
        let stored = |failure| {
            let claimed = Claimed {
                id: WebhookDeliveryId::new(at),
                account_id: AccountId::new(at),
                mode: Mode::Live,
                endpoint_id: WebhookEndpointId::new(at),
                event_id: EventId::new(at),
                happened_at: at,
                created_at: at,
                attempt: 1,
                replay_of: None,
                fence: 1,
                url: "https://redis/".to_owned(),
                payload: "{}".to_owned(),
                secret: vec![],
                previous_secret: None,
                signing_failed: false,
            };
            let mut attempted = Attempted::new(claimed, at);
            attempted.fail(failure, String::new());
            Columns::of(&[(&attempted, None)]).failures[0]
        };
        assert_eq!(stored(Failure::PrivateAddress), stored(Failure::Dns));
        assert_ne!(Failure::PrivateAddress.name(), Failure::Dns.name(), "the metrics distinguish them");
        assert_eq!(stored(Failure::AddressRefused), Some("address_refused"), "the merchant wrote this address");
    }
}

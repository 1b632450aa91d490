//! Recording attempts, and disabling endpoints that fail for too long.

use std::time::Duration;

use sqlx::PgPool;
use uuid::Uuid;

use super::attempt::Attempted;
use super::claim::Claimed;
use crate::accounts::Mode;
use crate::events::{self, EventType};
use crate::webhooks::endpoints;
use crate::webhooks::status::{DisabledReason, EndpointStatus};
use crate::webhooks::view::EndpointView;
use foundation::db::Db;
use foundation::error::Result;
use foundation::id::{AccountId, WebhookDeliveryId, WebhookEndpointId};
use foundation::time::Timestamp;

/// An endpoint is disabled after failing for this long.
pub const DISABLED_AFTER: Duration = Duration::from_secs(5 * 24 * 3600);
/// Failures further apart than this belong to separate failing periods. Longer than the longest delay of the schedule.
pub const MAX_FAILURE_GAP: Duration = Duration::from_secs(27 * 3600);

/// Records attempts in one statement, with the next attempt and the new state of the endpoint. Then disables endpoints
/// that returned 410 or have failed for too long, which emits an event for the account's other endpoints.
///
/// Attempts are recorded even if another worker has claimed the delivery since: a late success ends the delivery, and a
/// late failure is stored as a separate delivery with its own id.
///
/// Returns the deliveries that another transaction has locked, such as the deletion of a customer: their attempts were not
/// recorded. Waiting for them would delay the others.
///
/// # Errors
/// Database errors only; then nothing was recorded.
pub async fn record(db: &Db, attempts: &[Attempted], now: Timestamp) -> Result<Vec<WebhookDeliveryId>> {
    if attempts.is_empty() {
        return Ok(Vec::new());
    }
    let chance = || f64::from(foundation::crypto::random_u32()) / f64::from(u32::MAX);
    let mut rows: Vec<_> = attempts.iter().map(|attempt| (attempt, attempt.next_attempt_after(chance()))).collect();
    // Rows are locked in this order.
    rows.sort_by_key(|(attempt, _)| attempt.claimed.id);
    let written = write(db, &Columns::of(&rows)).await?;
    let gone = written.gone.into_iter().map(|id| (id, DisabledReason::Gone));
    for (id, reason) in gone.chain(written.failing.into_iter().map(|id| (id, DisabledReason::Failing))) {
        let Some(attempt) = attempts.iter().find(|attempt| attempt.claimed.endpoint_id.uuid() == id) else { continue };
        let Claimed { account_id, mode, endpoint_id, .. } = attempt.claimed;
        let disabled = disable(db, (account_id, mode), endpoint_id, reason, now).await;
        // The attempts are recorded already, so an error here must not cause a second recording.
        if let Err(error) = disabled {
            tracing::error!(%error, endpoint = %endpoint_id, "endpoint not disabled; its next failure disables it");
        }
    }
    Ok(written.locked_by_others.into_iter().map(WebhookDeliveryId::from_uuid).collect())
}

/// Disables an endpoint because of the results of its attempts, and emits an event for the account's other endpoints.
/// Does nothing if the endpoint is already disabled or deleted.
async fn disable(
    db: &Db,
    caller: (AccountId, Mode),
    id: WebhookEndpointId,
    reason: DisabledReason,
    now: Timestamp,
) -> Result<()> {
    let (account, mode) = caller;
    let mut tx = db.begin().await?;
    let Some(mut endpoint) = endpoints::lock(&mut tx, account, id).await? else { return Ok(()) };
    if endpoint.status == EndpointStatus::Disabled {
        return Ok(());
    }
    endpoint.status = EndpointStatus::Disabled;
    endpoint.disabled_reason = Some(reason);
    endpoints::save(&mut tx, account, &mut endpoint, false).await?;
    // After the change, so that the disabled endpoint gets no delivery of this event.
    let (livemode, view) = (mode == Mode::Live, EndpointView::new(&endpoint, mode == Mode::Live));
    events::append(&mut tx, account, livemode, EventType::WebhookEndpointDisabled, &view, now).await?;
    tx.commit().await?;
    tracing::warn!(
        endpoint = %id,
        reason = reason.name(),
        "webhook endpoint disabled; the account's other endpoints are notified"
    );
    Ok(())
}

/// What one statement has written, and what not.
struct Written {
    /// The deliveries whose attempts were not recorded.
    locked_by_others: Vec<Uuid>,
    /// The endpoints to disable because they returned 410.
    gone: Vec<Uuid>,
    /// The endpoints to disable because they have failed for [`DISABLED_AFTER`].
    failing: Vec<Uuid>,
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

/// One statement, so that everything is written or nothing: ends the deliveries that need no further attempt, schedules
/// the next attempts of the others, records the attempts, and updates the endpoints.
macro_rules! record_attempts {
    ($($argument:tt)*) => {
        sqlx::query_as!(
            Written,
            r#"WITH ended_attempts AS MATERIALIZED (
               SELECT m.*, clock_timestamp() + make_interval(secs => m.next_after) AS next_at,
                      clock_timestamp() + make_interval(secs => m.paused_for) AS paused_until,
                      clock_timestamp() - make_interval(secs => m.duration_ms / 1000.0) AS began_at
               FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[], $5::smallint[], $6::uuid[], $7::bigint[],
                   $8::text[], $9::smallint[], $10::text[], $11::int[], $12::timestamptz[], $13::float8[], $14::float8[],
                   $15::timestamptz[], $17::text[])
               AS m (id, account_id, endpoint_id, event_id, attempt, replay_of, fence, failure, response_status, response_body,
                     duration_ms, attempted_at, next_after, paused_for, created_at, failure_message)),
           locked AS MATERIALIZED (
               SELECT held.id, held.erased FROM unnest($2::uuid[], $1::uuid[]) AS m (account_id, id)
               CROSS JOIN LATERAL (SELECT p.id, p.erased FROM webhook_pending p
                   WHERE p.account_id = m.account_id AND p.id = m.id FOR UPDATE SKIP LOCKED) held),
           -- Another transaction has locked or just changed them. The others that are not locked have ended already.
           locked_by_others AS MATERIALIZED (
               SELECT found.id FROM unnest($2::uuid[], $1::uuid[]) AS m (account_id, id)
               CROSS JOIN LATERAL (SELECT p.id FROM webhook_pending p
                   WHERE p.account_id = m.account_id AND p.id = m.id OFFSET 0) found
               WHERE found.id NOT IN (SELECT id FROM locked)),
           made AS MATERIALIZED (
               SELECT * FROM ended_attempts WHERE id NOT IN (SELECT id FROM locked_by_others)),
           -- Delivered, even if another worker has claimed it since; or failed for the last time.
           ended AS (
               DELETE FROM webhook_pending p USING made m
               WHERE p.account_id = m.account_id AND p.id = m.id AND (m.id IN (SELECT id FROM locked)) IS TRUE
                 AND (m.failure IS NULL OR (m.next_at IS NULL AND p.fence = m.fence))
               RETURNING p.id, m.fence),
           -- The next attempt is a separate delivery. A success has none, even if this batch also has a later failure.
           again AS (
               UPDATE webhook_pending p SET id = new_ulid(clock_timestamp()), attempt = p.attempt + 1, due_at = m.next_at,
                   lease_until = NULL, created_at = clock_timestamp()
               FROM made m
               WHERE p.account_id = m.account_id AND p.id = m.id AND p.fence = m.fence AND m.next_at IS NOT NULL
                 AND (m.id IN (SELECT id FROM locked)) IS TRUE AND m.id NOT IN (SELECT id FROM ended)
               RETURNING m.id, m.fence),
           -- The response may repeat what was sent, so it is not stored if the event's object was erased meanwhile, or if
           -- this is no longer known.
           -- Joined by fence too: if a lease ended between two attempts of one delivery, both may be in this batch.
           recorded AS (
               INSERT INTO webhook_deliveries
                   (id, account_id, endpoint_id, event_id, attempt, replay_of, status, failure, response_status, response_body,
                    failure_message, duration_ms, attempted_at, next_attempt_at, created_at)
               SELECT coalesce(ended.id, again.id, new_ulid(clock_timestamp())), m.account_id, m.endpoint_id, m.event_id,
                   m.attempt, m.replay_of,
                   CASE WHEN m.failure IS NULL THEN 'succeeded' ELSE 'failed' END::webhook_delivery_status,
                   m.failure, m.response_status,
                   CASE WHEN (SELECT NOT bool_or(l.erased) FROM locked l WHERE l.id = m.id) THEN m.response_body END,
                   m.failure_message, m.duration_ms, m.attempted_at,
                   CASE WHEN again.id IS NOT NULL THEN m.next_at END, m.created_at
               FROM made m LEFT JOIN ended ON ended.id = m.id AND ended.fence = m.fence
                   LEFT JOIN again ON again.id = m.id AND again.fence = m.fence),
           -- In the order of ids, because two workers may record the same endpoints; skips endpoints that others have locked.
           held AS MATERIALIZED (
               SELECT locked.id, locked.fresh_since FROM (
                   SELECT endpoint_id, bool_or(failure IS NOT NULL OR paused_until IS NOT NULL) AS failed
                   FROM made GROUP BY endpoint_id ORDER BY endpoint_id) m
               CROSS JOIN LATERAL (SELECT e.id, e.fresh_since FROM webhook_endpoints e
                   WHERE e.id = m.endpoint_id AND (e.failing_since IS NOT NULL OR m.failed)
                   FOR NO KEY UPDATE SKIP LOCKED) locked),
           -- Attempts that began before the endpoint was enabled again or changed do not count.
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
               RETURNING e.id, e.failing_since, s.gone)
           SELECT ARRAY(SELECT DISTINCT id FROM locked_by_others) AS "locked_by_others!",
                  ARRAY(SELECT id FROM endpoint WHERE gone) AS "gone!",
                  ARRAY(SELECT id FROM endpoint
                        WHERE NOT gone AND failing_since < clock_timestamp() - make_interval(secs => $16)) AS "failing!""#,
            $($argument)*
        )
    };
}

async fn write(db: &PgPool, columns: &Columns<'_>) -> Result<Written> {
    let written = record_attempts!(
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
        DISABLED_AFTER.as_secs_f64(),
        &columns.messages as &[Option<&str>],
        MAX_FAILURE_GAP.as_secs_f64(),
    )
    .fetch_one(db)
    .await?;
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounts::Mode;
    use crate::webhooks::dispatch::{Claimed, Failure};
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
                is_test: false,
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

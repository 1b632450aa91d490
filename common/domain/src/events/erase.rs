//! Erases the objects of earlier events about deleted objects, and the responses to their deliveries.

use sqlx::PgConnection;
use uuid::Uuid;

use crate::deleted::DeletedView;
use foundation::error::{Error, Result};
use foundation::id::{AccountId, EventId};

/// Locks an event, so that its object is not erased before this transaction ends.
///
/// # Errors
/// Database errors only.
pub async fn lock_shared(tx: &mut PgConnection, id: EventId) -> Result<()> {
    sqlx::query!("SELECT id FROM events WHERE id = $1 FOR SHARE", id.uuid()).fetch_optional(tx).await?;
    Ok(())
}

/// Replaces the objects of earlier events by what remains of them. Ids, types and times stay. Responses of receivers
/// may repeat what was sent, so they are erased as well: first the events, so that no attempt begins with the earlier
/// bytes once the deliveries are marked; then, so that results of attempts in progress are stored without a response,
/// the pending deliveries; then the stored responses. The customer is locked, so no such event is added meanwhile.
///
/// # Errors
/// Database errors only.
pub async fn erase(tx: &mut PgConnection, account: AccountId, objects: &[DeletedView]) -> Result<()> {
    let ids: Vec<&str> = objects.iter().map(|object| object.id.as_str()).collect();
    let remains = objects.iter().map(serde_json::to_string).collect::<Result<Vec<_>, _>>();
    let remains = remains.map_err(|error| Error::internal(format!("a deleted object: {error}")))?;
    // A plan cached for small tables would compare each event with each delivery.
    sqlx::query!("SET LOCAL plan_cache_mode = force_custom_plan").execute(&mut *tx).await?;
    let events = sqlx::query_scalar!(
        "WITH found AS MATERIALIZED (
             SELECT v.id, o.remains FROM unnest($2::text[], $3::text[]) AS o (id, remains)
             CROSS JOIN LATERAL (SELECT v.id FROM events v
                 WHERE v.account_id = $1 AND event_object_id(v.payload) = o.id OFFSET 0) v)
         UPDATE events v SET payload = split_part(v.payload, '\"data\":', 1) || '\"data\":{\"object\":' || found.remains || '}}'
         FROM found WHERE v.id = found.id RETURNING v.id",
        account.uuid(),
        &ids as &[&str],
        &remains,
    );
    let events: Vec<Uuid> = events.fetch_all(&mut *tx).await?.into_iter().map(EventId::uuid).collect();
    mark_pending(tx, account, &events).await?;
    sqlx::query!(
        "WITH found AS MATERIALIZED (
             SELECT d.account_id, d.id FROM unnest($2::uuid[]) AS e (id)
             CROSS JOIN LATERAL (SELECT d.account_id, d.id FROM webhook_deliveries d
                 WHERE d.event_id = e.id AND d.response_body IS NOT NULL OFFSET 0) d)
         UPDATE webhook_deliveries d SET response_body = NULL
         FROM found WHERE d.account_id = $1 AND d.account_id = found.account_id AND d.id = found.id",
        account.uuid(),
        &events,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Marks the pending deliveries of events. They are locked in the order in which results are recorded; one that was
/// recorded meanwhile may have another id, so they are found by their events again.
async fn mark_pending(tx: &mut PgConnection, account: AccountId, events: &[Uuid]) -> Result<()> {
    sqlx::query!(
        "SELECT held.id FROM unnest(ARRAY(SELECT p.id FROM webhook_pending p WHERE p.event_id = ANY ($2) ORDER BY p.id)) AS d (id)
         CROSS JOIN LATERAL (SELECT p.id FROM webhook_pending p WHERE p.account_id = $1 AND p.id = d.id FOR NO KEY UPDATE) held",
        account.uuid(),
        events,
    )
    .fetch_all(&mut *tx)
    .await?;
    sqlx::query!(
        "UPDATE webhook_pending SET erased = true WHERE account_id = $1 AND event_id = ANY ($2)",
        account.uuid(),
        events,
    )
    .execute(tx)
    .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use foundation::clock::Clock;
    use foundation::crypto::Secret;
    use foundation::id::CustomerId;

    use super::*;

    const EVENTS: i64 = 1_000;

    /// Statistics from when the tables were small make it look cheap to compare each event with each delivery.
    #[tokio::test]
    async fn rows_are_read_in_proportion_to_the_events() {
        let database = testkit::Database::create().await.expect("a database");
        let url = Secret::new(database.url().to_owned());
        let db = foundation::db::pool(&url, 1, "test").expect("its address");
        let now = Clock::system().now();
        let (account, customer) = (AccountId::new(now), CustomerId::new(now));
        let payload = format!(r#"{{"id":"evt_1","data":{{"object":{{"id":"{customer}","object":"customer"}}}}}}"#);
        let mut tx = foundation::db::begin(&db).await.expect("begun");
        sqlx::query("SET LOCAL session_replication_role = replica").execute(&mut *tx).await.expect("no foreign keys");
        for count in [1, EVENTS] {
            for statement in [
                "INSERT INTO events (id, account_id, type, payload, created_at)
                 SELECT new_ulid(now()), $1, 'customer.updated', $2, now() FROM generate_series(1, $3)",
                "INSERT INTO webhook_deliveries (id, account_id, endpoint_id, event_id, attempt, status, response_body, created_at)
                 SELECT new_ulid(now()), $1, gen_random_uuid(), id, 1, 'succeeded', $2, now()
                 FROM events WHERE account_id = $1 LIMIT $3",
            ] {
                let filled = sqlx::query(statement).bind(account.uuid()).bind(&payload).bind(count);
                filled.execute(&mut *tx).await.expect("filled");
            }
            if count == 1 {
                sqlx::query("ANALYZE events, webhook_deliveries").execute(&mut *tx).await.expect("analyzed");
            }
        }
        let read = "SELECT coalesce(sum(seq_tup_read + idx_tup_fetch), 0)::bigint FROM pg_stat_xact_user_tables
                    WHERE relname LIKE 'events%' OR relname LIKE 'webhook_%'";
        let before: i64 = sqlx::query_scalar(read).fetch_one(&mut *tx).await.expect("counted");
        erase(&mut tx, account, &[DeletedView::customer(customer)]).await.expect("erased");
        let after: i64 = sqlx::query_scalar(read).fetch_one(&mut *tx).await.expect("counted");
        let left: i64 = sqlx::query_scalar(
            "SELECT (SELECT count(*) FROM events WHERE payload NOT LIKE '%\"deleted\":true%')
                 + (SELECT count(*) FROM webhook_deliveries WHERE response_body IS NOT NULL)",
        )
        .fetch_one(&mut *tx)
        .await
        .expect("counted");
        assert_eq!(left, 0);
        assert!(after - before < 10 * EVENTS, "{} rows read for {EVENTS} events", after - before);
    }
}

//! Queries for replays by operators.

use sqlx::PgPool;
use uuid::Uuid;

use crate::webhooks::DeliveryStatus;
use crate::webhooks::replays::Row;
use foundation::error::Result;
use foundation::id::{AccountId, EventId, WebhookDeliveryId, WebhookEndpointId};

/// A page of attempted deliveries with ids in `from..before`.
pub(in crate::webhooks) async fn attempted(
    db: &PgPool,
    account: AccountId,
    endpoint: WebhookEndpointId,
    (from, before): (Uuid, Uuid),
    limit: i64,
) -> Result<Vec<Row>> {
    let rows = sqlx::query_as!(
        Row,
        r#"SELECT d.id AS "id!: WebhookDeliveryId", d.event_id AS "event_id!: EventId", e.type AS "event_type?",
                  d.status AS "status!: DeliveryStatus", d.attempt = 1 AND d.replay_of IS NULL AS "is_first!"
           FROM (SELECT id, event_id, attempt, replay_of, status FROM webhook_deliveries
                 WHERE endpoint_id = $2 AND id >= $3 AND id < $4 ORDER BY endpoint_id, id LIMIT $5) d
           LEFT JOIN LATERAL (SELECT type FROM events WHERE id = d.event_id AND account_id = $1
                              AND d.attempt = 1 AND d.replay_of IS NULL LIMIT 1) e ON true"#,
        account.uuid(),
        endpoint.uuid(),
        from,
        before,
        limit,
    );
    let mut rows = rows.fetch_all(db).await?;
    rows.sort_by_key(|row| row.id);
    Ok(rows)
}

/// A page of pending deliveries with their events.
pub(in crate::webhooks) async fn pending(
    db: &PgPool,
    endpoint: WebhookEndpointId,
    from: Uuid,
    limit: i64,
) -> Result<Vec<(WebhookDeliveryId, EventId)>> {
    let rows = sqlx::query!(
        r#"SELECT id AS "id: WebhookDeliveryId", event_id AS "event_id: EventId" FROM webhook_pending
           WHERE endpoint_id = $1 AND id >= $2 ORDER BY endpoint_id, id LIMIT $3"#,
        endpoint.uuid(),
        from,
        limit,
    );
    Ok(rows.fetch_all(db).await?.into_iter().map(|row| (row.id, row.event_id)).collect())
}

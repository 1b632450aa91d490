//! The SQL of replays that an operator orders.

use sqlx::PgPool;

use crate::error::Result;
use crate::id::{AccountId, EventId, WebhookDeliveryId, WebhookEndpointId};
use crate::time::Timestamp;
use crate::webhooks::DeliveryStatus;
use crate::webhooks::replays::Row;

/// All deliveries of an endpoint since an instant, in no order.
pub(in crate::webhooks) async fn since(
    db: &PgPool,
    account: AccountId,
    endpoint: WebhookEndpointId,
    since: Timestamp,
    limit: i64,
) -> Result<Vec<Row>> {
    let rows = sqlx::query_as!(
        Row,
        r#"SELECT d.id AS "id!: WebhookDeliveryId", d.event_id AS "event_id!: EventId", e.type AS "event_type?",
                  d.status AS "status!: DeliveryStatus", d.attempt = 1 AND d.replay_of IS NULL AS "is_first!"
           FROM ((SELECT id, event_id, attempt, replay_of, 'pending'::webhook_delivery_status AS status FROM webhook_pending
                  WHERE endpoint_id = $2 AND id >= ulid_floor($3) ORDER BY endpoint_id, id LIMIT $4)
                 UNION ALL
                 (SELECT id, event_id, attempt, replay_of, status FROM webhook_deliveries
                  WHERE endpoint_id = $2 AND id >= ulid_floor($3) ORDER BY endpoint_id, id LIMIT $4)) d
           LEFT JOIN LATERAL (SELECT type FROM events WHERE id = d.event_id AND account_id = $1 LIMIT 1) e ON true"#,
        account.uuid(),
        endpoint.uuid(),
        since,
        limit,
    );
    Ok(rows.fetch_all(db).await?)
}

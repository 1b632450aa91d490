//! Queries for displaying deliveries. Pending and attempted deliveries are in two tables. One statement reads both, so
//! that a row that moves from one to the other is seen exactly once.

use sqlx::{PgConnection, PgExecutor, PgPool};
use uuid::Uuid;

use crate::webhooks::DeliveryStatus;
use crate::webhooks::deliveries::{Delivery, Filter};
use foundation::error::Result;
use foundation::id::{AccountId, EventId, WebhookDeliveryId, WebhookEndpointId};
use foundation::time::Timestamp;

/// The common columns, with one condition for pending and one for attempted deliveries. The account is checked in the
/// outer query, where it does not influence which index is chosen. Events are looked up row by row, because a plan for
/// an unknown number of rows would read all events.
macro_rules! select_deliveries {
    ([$($pending:tt)+], [$($attempted:tt)+], $($arg:expr),* $(,)?) => {
        sqlx::query_as!(
            Delivery,
            r#"SELECT d.id AS "id!: WebhookDeliveryId", d.endpoint_id AS "endpoint_id!: WebhookEndpointId",
                      d.event_id AS "event_id!: EventId", e.type AS "event_type?", e.payload AS "payload?",
                      d.attempt AS "attempt!", d.replay_of AS "replay_of?: WebhookDeliveryId",
                      d.status AS "status!: DeliveryStatus", d.failure AS "failure?", d.failure_message AS "failure_message?",
                      d.response_status AS "response_status?", d.response_body AS "response_body?",
                      d.duration_ms AS "duration_ms?", d.attempted_at AS "attempted_at?",
                      d.next_attempt_at AS "next_attempt_at?", d.created_at AS "created_at!"
               FROM ((SELECT id, account_id, endpoint_id, event_id, attempt, replay_of,
                             'pending'::webhook_delivery_status AS status, NULL AS failure, NULL AS failure_message,
                             NULL::smallint AS response_status, NULL AS response_body, NULL::integer AS duration_ms,
                             NULL::timestamptz AS attempted_at, due_at AS next_attempt_at, created_at
                      FROM webhook_pending WHERE "# + $($pending)+ + r#")
                     UNION ALL
                     (SELECT id, account_id, endpoint_id, event_id, attempt, replay_of, status, failure, failure_message,
                             response_status, response_body, duration_ms, attempted_at, next_attempt_at, created_at
                      FROM webhook_deliveries WHERE "# + $($attempted)+ + r#")) d
               LEFT JOIN LATERAL (SELECT type, payload FROM events WHERE id = d.event_id AND account_id = $1 LIMIT 1) e
                   ON true
               WHERE d.account_id = $1 ORDER BY d.id DESC"#,
            $($arg),*
        )
    };
}

pub(in crate::webhooks) async fn find(
    db: impl PgExecutor<'_>,
    account: AccountId,
    id: WebhookDeliveryId,
) -> Result<Option<Delivery>> {
    let query =
        select_deliveries!(["account_id = $1 AND id = $2"], ["account_id = $1 AND id = $2"], account.uuid(), id.uuid());
    Ok(query.fetch_optional(db).await?)
}

/// The newest deliveries before a cursor. Each combination of filters has its own statement: a common one would get a
/// plan that fits none of them and would read rows only to filter them out.
pub(in crate::webhooks) async fn list(
    db: &PgPool,
    account: AccountId,
    filter: Filter,
    after: Option<WebhookDeliveryId>,
    limit: i64,
) -> Result<Vec<Delivery>> {
    let before = after.map_or(Uuid::max(), WebhookDeliveryId::uuid);
    let endpoint = filter.endpoint.map(WebhookEndpointId::uuid);
    // A table that the filter excludes gets LIMIT 0 and is then not read.
    let (pending, attempted) = match filter.status {
        None => (limit, limit),
        Some(DeliveryStatus::Pending) => (limit, 0),
        Some(DeliveryStatus::Succeeded | DeliveryStatus::Failed) => (0, limit),
    };
    macro_rules! page {
        ($endpoint:tt, $status:tt) => {
            select_deliveries!(
                [$endpoint + " AND id < $3 ORDER BY id DESC LIMIT $4"],
                [$endpoint + $status + " AND id < $3 ORDER BY id DESC LIMIT $5"],
                account.uuid(),
                endpoint,
                before,
                pending,
                attempted,
            )
            .fetch_all(db)
            .await?
        };
    }
    let rows = match (filter.endpoint, filter.status) {
        (None, None | Some(DeliveryStatus::Pending)) => page!("account_id = $1 AND $2::uuid IS NULL", ""),
        (None, Some(DeliveryStatus::Succeeded)) => {
            page!("account_id = $1 AND $2::uuid IS NULL", " AND status = 'succeeded'")
        }
        (None, Some(DeliveryStatus::Failed)) => page!("account_id = $1 AND $2::uuid IS NULL", " AND status = 'failed'"),
        (Some(_), None | Some(DeliveryStatus::Pending)) => page!("endpoint_id = $2", ""),
        (Some(_), Some(DeliveryStatus::Succeeded)) => page!("endpoint_id = $2", " AND status = 'succeeded'"),
        (Some(_), Some(DeliveryStatus::Failed)) => page!("endpoint_id = $2", " AND status = 'failed'"),
    };
    Ok(rows)
}

/// Writes a delivery that is due at once by the database's clock, and returns that time.
pub(in crate::webhooks) async fn insert_due_now(
    tx: &mut PgConnection,
    account: AccountId,
    new: &Delivery,
) -> Result<Timestamp> {
    let due_at = sqlx::query_scalar!(
        "INSERT INTO webhook_pending (id, account_id, endpoint_id, event_id, attempt, replay_of, due_at, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, clock_timestamp(), $7) RETURNING due_at",
        new.id.uuid(),
        account.uuid(),
        new.endpoint_id.uuid(),
        new.event_id.uuid(),
        new.attempt,
        new.replay_of.map(WebhookDeliveryId::uuid),
        new.created_at,
    )
    .fetch_one(tx)
    .await?;
    Ok(due_at)
}

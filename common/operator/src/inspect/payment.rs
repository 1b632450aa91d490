//! The complete history of one payment, in order of time.

use serde_json::{Value, json};
use sqlx::PgPool;
use uuid::Uuid;

use super::anomalies::{self, Anomaly};
use super::verdict::describe_payment;
use domain::audit;
use domain::disputes::{self, Dispute};
use domain::operations::admin::{self as operations, OperationRow};
use domain::payments::{self, Payment, PaymentView};
use domain::webhooks::DeliveryStatus;
use foundation::error::{Error, Result};
use foundation::id::{
    AccountId, CollectionAttemptId, EventId, InvoiceId, KeyId, PaymentId, WebhookDeliveryId, WebhookEndpointId,
};
use foundation::time::Timestamp;

/// Number of rows of an account searched for a payment's events, and again for their deliveries. If there are more, the
/// history is marked as possibly incomplete.
const MAX_ROWS: i64 = 50_000;
/// Allowed clock skew.
const CLOCK_SKEW_MS: i64 = 60_000;

/// An entry of the history.
#[derive(Debug)]
pub struct TimelineEntry {
    /// By the database's clock or the account's.
    pub at: Timestamp,
    /// Short name of what happened.
    pub label: &'static str,
    pub detail: Value,
}

/// A payment, its history, and a description of its state.
#[derive(Debug)]
pub struct PaymentHistory {
    pub account: AccountId,
    /// As returned by the API.
    pub payment: Value,
    /// Its state and what happens next, in sentences.
    pub verdict: Vec<String>,
    pub timeline: Vec<TimelineEntry>,
    /// Whether all its events and deliveries are certainly included.
    pub complete: bool,
}

/// Reads the history of a payment.
///
/// # Errors
/// [`Error::NotFound`].
pub async fn payment_history(db: &PgPool, id: PaymentId) -> Result<PaymentHistory> {
    let account = sqlx::query_scalar!("SELECT account_id FROM payments WHERE id = $1", id.uuid());
    let account = account.fetch_optional(db).await?.ok_or_else(|| Error::no_such("payment", id))?;
    let (payment, refunds) = payments::retrieve_with_refunds(db, account, id).await?;
    let operations = operations::of_payment(db, account, id).await?;
    // Ids have the time of the process that generated them, or the account's; rows have the time of Postgres. Start at
    // the earlier one, minus the allowed skew.
    let written = operations.first().map_or(payment.created_at, |operation| operation.created_at);
    let since = if written < payment.created_at { written } else { payment.created_at };
    let since = Timestamp::from_millisecond(since.as_millisecond() - CLOCK_SKEW_MS).unwrap_or(since);
    let mut timeline: Vec<_> = operations.iter().flat_map(operation_entries).collect();
    timeline.extend(refunds.iter().map(|refund| TimelineEntry {
        at: refund.created_at,
        label: "refund",
        detail: json!({"id": refund.id, "amount": refund.amount, "status": format!("{:?}", refund.status).to_lowercase(),
            "requested_by": refund.requested_by}),
    }));
    timeline.extend(disputes::of_payment(db, account, id).await?.iter().flat_map(dispute_entries));
    let anomalies = anomalies::of_payment(db, account, id).await?;
    timeline.extend(anomalies.iter().map(anomaly_entry));
    timeline.extend(parents(db, &payment).await?);
    let (found_events, all_events) = events(db, account, id, since).await?;
    let (deliveries, all_deliveries) = deliveries(db, account, since, &found_events).await?;
    timeline.extend(found_events.iter().map(|event| TimelineEntry {
        at: event.created_at,
        label: "event",
        detail: json!({"id": event.id, "type": event.kind}),
    }));
    timeline.extend(deliveries);
    timeline.extend(operator_actions(db, id, &operations).await?);
    timeline.sort_by_key(|entry| entry.at.as_millisecond());
    let view = serde_json::to_value(PaymentView::new(&payment, &refunds));
    Ok(PaymentHistory {
        account,
        verdict: describe_payment(&payment, &operations, &anomalies),
        payment: view.map_err(|error| Error::internal(format!("{id}: {error}")))?,
        timeline,
        complete: all_events && all_deliveries,
    })
}

fn dispute_entries(dispute: &Dispute) -> Vec<TimelineEntry> {
    let detail = json!({"id": dispute.id, "amount": dispute.amount, "reason": dispute.reason.name(),
        "status": dispute.status.name(), "respond_by": dispute.respond_by, "provider_ref": dispute.provider_ref});
    let closed = dispute.closed_at.map(|at| (at, "dispute closed"));
    let entries = [Some((dispute.created_at, "dispute")), closed].into_iter().flatten();
    entries.map(|(at, label)| TimelineEntry { at, label, detail: detail.clone() }).collect()
}

fn operation_entries(operation: &OperationRow) -> Vec<TimelineEntry> {
    let common = json!({"id": operation.id, "kind": operation.kind.name()});
    let entry = |at: Option<Timestamp>, label, detail: Value| {
        let mut all = common.clone();
        for (name, value) in detail.as_object().into_iter().flatten() {
            all[name] = value.clone();
        }
        at.map(|at| TimelineEntry { at, label, detail: all })
    };
    let sent_again = operation.last_sent_at.filter(|at| Some(*at) != operation.first_sent_at);
    let state = json!({
        "state": operation.state.name(), "fence": operation.fence, "next_push_at": operation.next_push_at,
        "lease_until": operation.lease_until, "reference": operation.reference,
    });
    let ended = json!({
        "state": operation.state.name(), "provider_ref": operation.provider_ref, "failure": operation.failure,
    });
    let written = json!({
        "amount": operation.amount, "refund": operation.refund_id, "requested_by": requester(operation.requested_by, operation.by_system, operation.background),
        "request_id": operation.request_id,
    });
    let mut timeline = vec![
        entry(Some(operation.created_at), "operation written", written),
        entry(operation.first_sent_at, "operation sent", state),
        entry(sent_again, "operation sent again", json!({})),
    ];
    timeline.push(entry(operation.finished_at, "operation ended", ended));
    timeline.into_iter().flatten().collect()
}

/// Returns the key that requested an operation, or else what started it. `None` for a payer on a hosted page, and for
/// rows older than this record.
pub(super) fn requester(key: Option<KeyId>, by_system: bool, background: bool) -> Option<String> {
    match key {
        Some(key) => Some(key.to_string()),
        None if by_system => Some("the system".to_owned()),
        None if background => Some("the schedule".to_owned()),
        None => None,
    }
}

fn anomaly_entry(row: &Anomaly) -> TimelineEntry {
    let detail = json!({"provider_ref": row.provider_ref, "amount": row.amount, "operation": row.operation_id,
        "reversed_by": row.reversal_operation_id});
    TimelineEntry { at: row.created_at, label: "second charge", detail }
}

struct Attempt {
    id: CollectionAttemptId,
    invoice_id: InvoiceId,
    number: i32,
    attempted_at: Timestamp,
    next_attempt_at: Option<Timestamp>,
}

/// Entries for what it pays: an invoice, with the collection attempt, or a link.
async fn parents(db: &PgPool, payment: &Payment) -> Result<Vec<TimelineEntry>> {
    let mut timeline = Vec::new();
    if let Some(invoice) = payment.invoice_id {
        timeline.push(TimelineEntry { at: payment.created_at, label: "pays invoice", detail: json!({"id": invoice}) });
        let attempt = sqlx::query_as!(
            Attempt,
            "SELECT id, invoice_id, number, attempted_at, next_attempt_at FROM collection_attempts
             WHERE account_id = $1 AND payment_id = $2",
            payment.account_id.uuid(),
            payment.id.uuid(),
        );
        timeline.extend(attempt.fetch_optional(db).await?.map(|row| TimelineEntry {
            at: row.attempted_at,
            label: "collection attempt",
            detail: json!({"id": row.id, "invoice": row.invoice_id, "number": row.number, "next_attempt_at": row.next_attempt_at}),
        }));
    }
    if let Some(link) = payment.payment_link_id {
        timeline.push(TimelineEntry { at: payment.created_at, label: "pays link", detail: json!({"id": link}) });
    }
    Ok(timeline)
}

struct EventRow {
    id: EventId,
    kind: String,
    created_at: Timestamp,
}

/// Returns the events about a payment, and whether all were found. There is no index by object, so the account's events
/// since the payment are searched.
async fn events(
    db: &PgPool,
    account: AccountId,
    payment: PaymentId,
    since: Timestamp,
) -> Result<(Vec<EventRow>, bool)> {
    let rows = sqlx::query_as!(
        EventRow,
        r#"SELECT e.id AS "id!: EventId", e.type AS "kind!", e.created_at AS "created_at!" FROM (
               SELECT id, type, payload, created_at FROM events
               WHERE (account_id, id) >= ($1, ulid_floor($2)) AND account_id <= $1 AND id >= ulid_floor($2)
               ORDER BY account_id, id LIMIT $3) e
           WHERE strpos(e.payload, $4) > 0"#,
        account.uuid(),
        since,
        MAX_ROWS,
        format!("\"{payment}\""),
    );
    let found = rows.fetch_all(db).await?;
    let searched = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM (
               SELECT FROM events WHERE (account_id, id) >= ($1, ulid_floor($2)) AND account_id <= $1 AND id >= ulid_floor($2)
               ORDER BY account_id, id LIMIT $3) e"#,
        account.uuid(),
        since,
        MAX_ROWS,
    );
    Ok((found, searched.fetch_one(db).await? < MAX_ROWS))
}

struct Sent {
    id: WebhookDeliveryId,
    endpoint_id: WebhookEndpointId,
    event_id: EventId,
    attempt: i16,
    status: DeliveryStatus,
    failure: Option<String>,
    response_status: Option<i16>,
    attempted_at: Option<Timestamp>,
    next_attempt_at: Option<Timestamp>,
    created_at: Timestamp,
    is_replay: bool,
}

async fn deliveries(
    db: &PgPool,
    account: AccountId,
    since: Timestamp,
    found_events: &[EventRow],
) -> Result<(Vec<TimelineEntry>, bool)> {
    let events: Vec<Uuid> = found_events.iter().map(|event| event.id.uuid()).collect();
    if events.is_empty() {
        return Ok((vec![], true));
    }
    let rows = sqlx::query_as!(
        Sent,
        r#"SELECT d.id AS "id!: WebhookDeliveryId", d.endpoint_id AS "endpoint_id!: WebhookEndpointId",
                  d.event_id AS "event_id!: EventId", d.attempt AS "attempt!", d.status AS "status!: DeliveryStatus",
                  d.failure AS "failure?", d.response_status AS "response_status?", d.attempted_at AS "attempted_at?",
                  d.next_attempt_at AS "next_attempt_at?", d.created_at AS "created_at!",
                  d.replay_of IS NOT NULL AS "is_replay!"
           FROM ((SELECT id, endpoint_id, event_id, attempt, 'pending'::webhook_delivery_status AS status, NULL AS failure,
                         NULL::smallint AS response_status, NULL::timestamptz AS attempted_at, due_at AS next_attempt_at,
                         created_at, replay_of
                  FROM webhook_pending WHERE account_id = $1 AND id >= ulid_floor($2) ORDER BY account_id, id LIMIT $3)
                 UNION ALL
                 (SELECT id, endpoint_id, event_id, attempt, status, failure, response_status, attempted_at, next_attempt_at,
                         created_at, replay_of
                  FROM webhook_deliveries WHERE account_id = $1 AND id >= ulid_floor($2) ORDER BY account_id, id LIMIT $3)) d
           WHERE d.event_id = ANY ($4)"#,
        account.uuid(),
        since,
        MAX_ROWS,
        &events,
    );
    let rows = rows.fetch_all(db).await?;
    let searched = sqlx::query_scalar!(
        r#"SELECT greatest(
               (SELECT count(*) FROM (SELECT FROM webhook_deliveries WHERE account_id = $1 AND id >= ulid_floor($2) LIMIT $3) d),
               (SELECT count(*) FROM (SELECT FROM webhook_pending WHERE account_id = $1 AND id >= ulid_floor($2) LIMIT $3) p))
               AS "count!""#,
        account.uuid(),
        since,
        MAX_ROWS,
    );
    let complete = searched.fetch_one(db).await? < MAX_ROWS;
    let entry = |row: Sent| TimelineEntry {
        at: row.attempted_at.or(row.next_attempt_at).unwrap_or(row.created_at),
        label: if row.status == DeliveryStatus::Pending { "delivery due" } else { "delivery" },
        detail: json!({
            "id": row.id, "endpoint": row.endpoint_id, "event": row.event_id, "attempt": row.attempt,
            "replay": row.is_replay, "status": row.status.name(), "failure": row.failure,
            "response_status": row.response_status, "next_attempt_at": row.next_attempt_at,
        }),
    };
    Ok((rows.into_iter().map(entry).collect(), complete))
}

async fn operator_actions(db: &PgPool, id: PaymentId, operations: &[OperationRow]) -> Result<Vec<TimelineEntry>> {
    let objects: Vec<_> =
        [id.to_string()].into_iter().chain(operations.iter().map(|operation| operation.id.to_string())).collect();
    let entry = |row: audit::Row| TimelineEntry {
        at: row.at,
        label: "operator",
        detail: json!({"actor": row.actor, "action": row.action, "object": row.object, "detail": row.detail}),
    };
    Ok(audit::for_objects(db, &objects).await?.into_iter().map(entry).collect())
}

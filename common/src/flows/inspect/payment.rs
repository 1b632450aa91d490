//! The whole story of one payment, in order of time.

use serde_json::{Value, json};
use sqlx::PgPool;
use uuid::Uuid;

use super::verdict::payment_stands;
use crate::audit;
use crate::error::{Error, Result};
use crate::id::{
    AccountId, CollectionAttemptId, EventId, InvoiceId, KeyId, OperationId, PaymentId, WebhookDeliveryId,
    WebhookEndpointId,
};
use crate::operations::admin::{self as operations, OperationRow};
use crate::payments::{self, Payment, PaymentView};
use crate::time::Timestamp;
use crate::webhooks::DeliveryStatus;

/// Rows of an account that are searched for a payment's events, and again for their deliveries. Beyond that the story says that
/// it may not be whole.
const SEARCHED: i64 = 50_000;
/// How far clocks may be apart.
const SLACK_MS: i64 = 60_000;

/// Something that happened.
#[derive(Debug)]
pub struct Moment {
    /// When, by the database's clock or the account's.
    pub at: Timestamp,
    /// What, in a word or two.
    pub what: &'static str,
    /// What else there is to say of it.
    pub detail: Value,
}

/// A payment, all that happened about it, and where it stands in plain words.
#[derive(Debug)]
pub struct Story {
    /// Whose it is.
    pub account: AccountId,
    /// As the API shows it.
    pub payment: Value,
    /// Where it stands and what happens next.
    pub verdict: Vec<String>,
    /// In order of time.
    pub moments: Vec<Moment>,
    /// Whether all its events and deliveries are certainly there.
    pub whole: bool,
}

/// Tells it.
///
/// # Errors
/// [`Error::NotFound`].
pub async fn story_of_payment(db: &PgPool, id: PaymentId) -> Result<Story> {
    let account = sqlx::query_scalar!("SELECT account_id FROM payments WHERE id = $1", id.uuid());
    let account = account.fetch_optional(db).await?.ok_or_else(|| Error::no_such("payment", id))?;
    let (payment, refunds) = payments::retrieve_with_refunds(db, account, id).await?;
    let operations = operations::of_payment(db, account, id).await?;
    // Ids carry the clock of the process that made them, or the account's, and rows Postgres': whichever is first, and some slack.
    let written = operations.first().map_or(payment.created_at, |operation| operation.created_at);
    let began = if written < payment.created_at { written } else { payment.created_at };
    let began = Timestamp::from_millisecond(began.as_millisecond() - SLACK_MS).unwrap_or(began);
    let mut moments: Vec<_> = operations.iter().flat_map(of_operation).collect();
    moments.extend(refunds.iter().map(|refund| Moment {
        at: refund.created_at,
        what: "refund",
        detail: json!({"id": refund.id, "amount": refund.amount, "status": format!("{:?}", refund.status).to_lowercase(),
            "requested_by": refund.requested_by}),
    }));
    let anomalies = anomalies(db, account, id).await?;
    moments.extend(anomalies.iter().map(of_anomaly));
    moments.extend(parents(db, &payment).await?);
    let (told, all_events) = events(db, account, id, began).await?;
    let (deliveries, all_deliveries) = deliveries(db, account, began, &told).await?;
    moments.extend(told.iter().map(|event| Moment {
        at: event.created_at,
        what: "event",
        detail: json!({"id": event.id, "type": event.kind}),
    }));
    moments.extend(deliveries);
    moments.extend(audited(db, id, &operations).await?);
    moments.sort_by_key(|moment| moment.at.as_millisecond());
    let view = serde_json::to_value(PaymentView::new(&payment, &refunds));
    Ok(Story {
        account,
        verdict: payment_stands(&payment, &operations, &anomalies),
        payment: view.map_err(|error| Error::internal(format!("{id}: {error}")))?,
        moments,
        whole: all_events && all_deliveries,
    })
}

fn of_operation(operation: &OperationRow) -> Vec<Moment> {
    let named = json!({"id": operation.id, "kind": operation.kind.name()});
    let moment = |at: Option<Timestamp>, what, detail: Value| {
        let mut all = named.clone();
        for (name, value) in detail.as_object().into_iter().flatten() {
            all[name] = value.clone();
        }
        at.map(|at| Moment { at, what, detail: all })
    };
    let sent_again = operation.last_sent_at.filter(|at| Some(*at) != operation.first_sent_at);
    let stands = json!({
        "state": operation.state.name(), "fence": operation.fence, "next_push_at": operation.next_push_at,
        "lease_until": operation.lease_until, "reference": operation.reference,
    });
    let ended = json!({
        "state": operation.state.name(), "provider_ref": operation.provider_ref, "failure": operation.failure,
    });
    let written = json!({
        "amount": operation.amount, "refund": operation.refund_id, "requested_by": who_asked(operation.requested_by, operation.by_system, operation.background),
        "request_id": operation.request_id,
    });
    let mut moments = vec![
        moment(Some(operation.created_at), "operation written", written),
        moment(operation.first_sent_at, "operation sent", stands),
        moment(sent_again, "operation sent again", json!({})),
    ];
    moments.push(moment(operation.finished_at, "operation ended", ended));
    moments.into_iter().flatten().collect()
}

/// The key that asked for an operation, or who else began it; none of a payer on a page of ours, and of rows from before this was
/// written down.
pub(super) fn who_asked(key: Option<KeyId>, by_system: bool, background: bool) -> Option<String> {
    match key {
        Some(key) => Some(key.to_string()),
        None if by_system => Some("the system".to_owned()),
        None if background => Some("the schedule".to_owned()),
        None => None,
    }
}

/// A charge that the payment did not want.
pub(super) struct Anomaly {
    operation_id: OperationId,
    /// What gives it back.
    pub(super) reversal_operation_id: OperationId,
    /// The provider's name for it.
    pub(super) provider_ref: String,
    /// How much.
    pub(super) amount: i64,
    created_at: Timestamp,
}

fn of_anomaly(row: &Anomaly) -> Moment {
    let detail = json!({"provider_ref": row.provider_ref, "amount": row.amount, "operation": row.operation_id,
        "reversed_by": row.reversal_operation_id});
    Moment { at: row.created_at, what: "second charge", detail }
}

async fn anomalies(db: &PgPool, account: AccountId, payment: PaymentId) -> Result<Vec<Anomaly>> {
    let operations = sqlx::query_as!(
        Anomaly,
        r#"SELECT a.operation_id AS "operation_id: OperationId", a.reversal_operation_id AS "reversal_operation_id: OperationId",
                  a.provider_ref, a.amount, a.created_at
           FROM operations o JOIN charge_anomalies a ON a.operation_id = o.id
           WHERE o.account_id = $1 AND o.payment_id = $2 LIMIT 100"#,
        account.uuid(),
        payment.uuid(),
    );
    Ok(operations.fetch_all(db).await?)
}

struct Attempt {
    id: CollectionAttemptId,
    invoice_id: InvoiceId,
    number: i32,
    attempted_at: Timestamp,
    next_attempt_at: Option<Timestamp>,
}

/// What it is for: an invoice, by whose attempt, or a link.
async fn parents(db: &PgPool, payment: &Payment) -> Result<Vec<Moment>> {
    let mut moments = Vec::new();
    if let Some(invoice) = payment.invoice_id {
        moments.push(Moment { at: payment.created_at, what: "pays invoice", detail: json!({"id": invoice}) });
        let attempt = sqlx::query_as!(
            Attempt,
            "SELECT id, invoice_id, number, attempted_at, next_attempt_at FROM collection_attempts
             WHERE account_id = $1 AND payment_id = $2",
            payment.account_id.uuid(),
            payment.id.uuid(),
        );
        moments.extend(attempt.fetch_optional(db).await?.map(|row| Moment {
            at: row.attempted_at,
            what: "collection attempt",
            detail: json!({"id": row.id, "invoice": row.invoice_id, "number": row.number, "next_attempt_at": row.next_attempt_at}),
        }));
    }
    if let Some(link) = payment.payment_link_id {
        moments.push(Moment { at: payment.created_at, what: "pays link", detail: json!({"id": link}) });
    }
    Ok(moments)
}

struct Told {
    id: EventId,
    kind: String,
    created_at: Timestamp,
}

/// Events about an object, and whether all were found. There is no index by object: the account's are searched, from the payment
/// on.
async fn events(db: &PgPool, account: AccountId, payment: PaymentId, began: Timestamp) -> Result<(Vec<Told>, bool)> {
    let rows = sqlx::query_as!(
        Told,
        r#"SELECT e.id AS "id!: EventId", e.type AS "kind!", e.created_at AS "created_at!" FROM (
               SELECT id, type, payload, created_at FROM events
               WHERE (account_id, id) >= ($1, ulid_floor($2)) AND account_id <= $1 AND id >= ulid_floor($2)
               ORDER BY account_id, id LIMIT $3) e
           WHERE strpos(e.payload, $4) > 0"#,
        account.uuid(),
        began,
        SEARCHED,
        format!("\"{payment}\""),
    );
    let found = rows.fetch_all(db).await?;
    let searched = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM (
               SELECT FROM events WHERE (account_id, id) >= ($1, ulid_floor($2)) AND account_id <= $1 AND id >= ulid_floor($2)
               ORDER BY account_id, id LIMIT $3) e"#,
        account.uuid(),
        began,
        SEARCHED,
    );
    Ok((found, searched.fetch_one(db).await? < SEARCHED))
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

async fn deliveries(db: &PgPool, account: AccountId, began: Timestamp, told: &[Told]) -> Result<(Vec<Moment>, bool)> {
    let events: Vec<Uuid> = told.iter().map(|event| event.id.uuid()).collect();
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
        began,
        SEARCHED,
        &events,
    );
    let rows = rows.fetch_all(db).await?;
    let searched = sqlx::query_scalar!(
        r#"SELECT greatest(
               (SELECT count(*) FROM (SELECT FROM webhook_deliveries WHERE account_id = $1 AND id >= ulid_floor($2) LIMIT $3) d),
               (SELECT count(*) FROM (SELECT FROM webhook_pending WHERE account_id = $1 AND id >= ulid_floor($2) LIMIT $3) p))
               AS "count!""#,
        account.uuid(),
        began,
        SEARCHED,
    );
    let whole = searched.fetch_one(db).await? < SEARCHED;
    let moment = |row: Sent| Moment {
        at: row.attempted_at.or(row.next_attempt_at).unwrap_or(row.created_at),
        what: if row.status == DeliveryStatus::Pending { "delivery due" } else { "delivery" },
        detail: json!({
            "id": row.id, "endpoint": row.endpoint_id, "event": row.event_id, "attempt": row.attempt,
            "replay": row.is_replay, "status": row.status.name(), "failure": row.failure,
            "response_status": row.response_status, "next_attempt_at": row.next_attempt_at,
        }),
    };
    Ok((rows.into_iter().map(moment).collect(), whole))
}

async fn audited(db: &PgPool, id: PaymentId, operations: &[OperationRow]) -> Result<Vec<Moment>> {
    let objects: Vec<_> =
        [id.to_string()].into_iter().chain(operations.iter().map(|operation| operation.id.to_string())).collect();
    let moment = |row: audit::Row| Moment {
        at: row.at,
        what: "operator",
        detail: json!({"actor": row.actor, "action": row.action, "object": row.object, "detail": row.detail}),
    };
    Ok(audit::about(db, &objects).await?.into_iter().map(moment).collect())
}

//! Webhooks: a merchant's endpoints and their secrets, and deliveries as they are listed and replayed.
//!
//! Deliveries are written here by hand, as a worker would have left them. So the cluster has nobody who delivers, and what a
//! test has written stays as it is.

mod deletion;
mod deliveries;
mod endpoints;
mod filters;
mod replays;
mod secrets;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use testkit::Cluster;
use tokio::sync::OnceCell;
use uuid::Uuid;

use crate::support::{Merchant, created, id, printed, uuid};

const ENDPOINTS: &str = "/v1/webhook_endpoints";
const DELIVERIES: &str = "/v1/webhook_deliveries";

/// The cluster of all tests here. It ends with the test process.
async fn still() -> Result<&'static Cluster> {
    static SHARED: OnceCell<Cluster> = OnceCell::const_new();
    SHARED.get_or_try_init(|| Cluster::builder().api(1).start()).await
}

/// A merchant of the cluster in which nothing is delivered.
async fn merchant() -> Result<Merchant> {
    Merchant::new(still().await?).await
}

/// The body of an endpoint that is told of nothing that happens here, so that its deliveries are those of the test.
fn hook() -> Value {
    json!({"url": "https://hooks.example/in", "enabledEvents": ["payment.expired"]})
}

/// The id of a new endpoint.
async fn endpoint(merchant: &Merchant) -> Result<String> {
    id(created(&merchant.api.post(ENDPOINTS, hook()).await?))
}

/// An event of the account.
#[derive(Clone)]
struct Event {
    id: Uuid,
    kind: String,
    payload: String,
}

impl Event {
    /// A new customer's.
    async fn of(merchant: &Merchant) -> Result<Self> {
        merchant.customer().await?;
        let newest = "SELECT id, type, payload FROM events WHERE account_id = $1 ORDER BY id DESC LIMIT 1";
        let row: (Uuid, String, String) =
            sqlx::query_as(newest).bind(merchant.books.account).fetch_one(&merchant.books.db).await?;
        Ok(Self { id: row.0, kind: row.1, payload: row.2 })
    }

    /// As the API prints it.
    fn name(&self) -> String {
        printed("evt_", self.id)
    }
}

/// The id of a delivery that is due tomorrow.
async fn pending(merchant: &Merchant, endpoint: &str, event: &Event) -> Result<String> {
    let id: Uuid = sqlx::query_scalar(
        "INSERT INTO webhook_pending (id, account_id, endpoint_id, event_id, due_at, created_at)
         VALUES (new_ulid(clock_timestamp()), $1, $2, $3, clock_timestamp() + interval '1 day', clock_timestamp())
         RETURNING id",
    )
    .bind(merchant.books.account)
    .bind(uuid(endpoint)?)
    .bind(event.id)
    .fetch_one(&merchant.books.db)
    .await?;
    Ok(printed("whd_", id))
}

/// The id of a delivery that has come to this end.
async fn made(merchant: &Merchant, endpoint: &str, event: &Event, status: &str) -> Result<String> {
    let id: Uuid = sqlx::query_scalar(
        "INSERT INTO webhook_deliveries
            (id, account_id, endpoint_id, event_id, attempt, status, failure, attempted_at, created_at)
         VALUES (new_ulid(clock_timestamp()), $1, $2, $3, 1, $4::webhook_delivery_status,
                 CASE $4 WHEN 'failed' THEN 'timeout' END, clock_timestamp(), clock_timestamp())
         RETURNING id",
    )
    .bind(merchant.books.account)
    .bind(uuid(endpoint)?)
    .bind(event.id)
    .bind(status)
    .fetch_one(&merchant.books.db)
    .await?;
    Ok(printed("whd_", id))
}

/// What a worker does at the end of an attempt: the row goes over, under its id.
async fn ends(merchant: &Merchant, delivery: &str) -> Result<()> {
    let moved = sqlx::query(
        "WITH gone AS (DELETE FROM webhook_pending WHERE account_id = $1 AND id = $2 RETURNING *)
         INSERT INTO webhook_deliveries (id, account_id, endpoint_id, event_id, attempt, status, created_at)
         SELECT id, account_id, endpoint_id, event_id, attempt, 'succeeded', created_at FROM gone",
    )
    .bind(merchant.books.account)
    .bind(uuid(delivery)?)
    .execute(&merchant.books.db)
    .await?;
    assert_eq!(moved.rows_affected(), 1);
    Ok(())
}

/// One delivery as the API shows it.
async fn delivery(merchant: &Merchant, id: &str) -> Result<Value> {
    let answer = merchant.api.get(&format!("{DELIVERIES}/{id}")).await?;
    Ok(crate::support::ok(&answer).clone())
}

/// The secret in an answer that made one.
fn secret(answer: &Value) -> Result<String> {
    answer["secret"].as_str().map(str::to_owned).with_context(|| format!("no secret in {answer}"))
}

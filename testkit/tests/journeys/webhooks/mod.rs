//! Webhook endpoints and their secrets, and listing and replaying deliveries.
//!
//! The tests insert deliveries as a worker would leave them. The cluster has no worker, so these rows do not change.

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

use crate::support::{Merchant, api_id, created, id, uuid};

const ENDPOINTS: &str = "/v1/webhook_endpoints";
const DELIVERIES: &str = "/v1/webhook_deliveries";

/// The cluster of all tests in this module. It ends with the test process.
async fn cluster_without_workers() -> Result<&'static Cluster> {
    static SHARED: OnceCell<Cluster> = OnceCell::const_new();
    SHARED.get_or_try_init(|| Cluster::builder().api(1).start()).await
}

/// A merchant of the cluster without workers.
async fn merchant() -> Result<Merchant> {
    Merchant::new(cluster_without_workers().await?).await
}

/// The body of an endpoint for an event type that these tests do not trigger, so that only the test adds deliveries.
fn endpoint_body() -> Value {
    json!({"url": "https://hooks.example/in", "enabledEvents": ["payment.expired"]})
}

async fn endpoint(merchant: &Merchant) -> Result<String> {
    id(created(&merchant.api.post(ENDPOINTS, endpoint_body()).await?))
}

/// An event of the account.
#[derive(Clone)]
struct Event {
    id: Uuid,
    kind: String,
    payload: String,
}

impl Event {
    /// Creates a customer and returns its event.
    async fn create(merchant: &Merchant) -> Result<Self> {
        merchant.customer().await?;
        let newest = "SELECT id, type, payload FROM events WHERE account_id = $1 ORDER BY id DESC LIMIT 1";
        let row: (Uuid, String, String) =
            sqlx::query_as(newest).bind(merchant.books.account).fetch_one(&merchant.books.db).await?;
        Ok(Self { id: row.0, kind: row.1, payload: row.2 })
    }

    fn api_id(&self) -> String {
        api_id("evt_", self.id)
    }
}

/// Inserts a delivery that is due tomorrow, and returns its id.
async fn insert_pending(merchant: &Merchant, endpoint: &str, event: &Event) -> Result<String> {
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
    Ok(api_id("whd_", id))
}

/// Inserts a delivery that ended with this status, and returns its id.
async fn insert_finished(merchant: &Merchant, endpoint: &str, event: &Event, status: &str) -> Result<String> {
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
    Ok(api_id("whd_", id))
}

/// Moves a pending delivery to the finished ones with the same id, as a worker does after an attempt.
async fn finish(merchant: &Merchant, delivery: &str) -> Result<()> {
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

async fn delivery(merchant: &Merchant, id: &str) -> Result<Value> {
    let response = merchant.api.get(&format!("{DELIVERIES}/{id}")).await?;
    Ok(crate::support::ok(&response).clone())
}

/// The secret in a response that created one.
fn secret(response: &Value) -> Result<String> {
    response["secret"].as_str().map(str::to_owned).with_context(|| format!("no secret in {response}"))
}

//! Webhook deliveries over real connections, to well-behaved and misbehaving receivers, and what the API shows of them.

mod batches;
mod connections;
mod deletion;
mod disabling;
mod examples;
mod fairness;
mod limits;
mod live;
mod matching;
mod outages;
mod replays;
mod retries;
mod retry_after;
mod rotation;
mod tests_of_endpoints;
mod unsigned;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use anyhow::{Context, Result};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use sqlx::{AssertSqlSafe, PgPool};
use testkit::Response;

use crate::support::{Merchant, Receiver, Request, created, eventually, id, ok, uuid};

/// A webhook endpoint registered for a path of a receiver.
struct Endpoint<'a> {
    merchant: &'a Merchant,
    id: String,
    secret: String,
}

impl<'a> Endpoint<'a> {
    /// Registers a path of a receiver for these event types; an empty list means all.
    async fn new(merchant: &'a Merchant, receiver: &Receiver, path: &str, events: &[&str]) -> Result<Self> {
        let body = json!({"url": receiver.url(path), "enabledEvents": events});
        let response = merchant.api.post("/v1/webhook_endpoints", body).await?;
        let secret = created(&response)["secret"].as_str().context("a secret")?.to_owned();
        Ok(Self { merchant, id: id(&response.body)?, secret })
    }

    fn path(&self) -> String {
        format!("/v1/webhook_endpoints/{}", self.id)
    }

    async fn get(&self) -> Result<Value> {
        Ok(ok(&self.merchant.api.get(&self.path()).await?).clone())
    }

    async fn update(&self, body: Value) -> Result<()> {
        ok(&self.merchant.api.post(&self.path(), body).await?);
        Ok(())
    }

    async fn delete(&self) -> Result<()> {
        assert_eq!(ok(&self.merchant.api.delete(&self.path()).await?)["deleted"], true);
        Ok(())
    }

    /// Rotates the secret and returns the new one. `self.secret` keeps the previous one.
    async fn rotate(&self) -> Result<String> {
        let path = format!("{}/rotate_secret", self.path());
        let response = self.merchant.api.send(reqwest::Method::POST, &path, None).await?;
        Ok(ok(&response)["secret"].as_str().context("a secret")?.to_owned())
    }

    /// Waits until the endpoint has this status.
    async fn wait_for_status(&self, status: &str) -> Result<Value> {
        eventually(status, async || {
            let current = self.get().await?;
            Ok((current["status"] == status).then_some(current))
        })
        .await
    }

    /// Its deliveries, oldest first, and those of one event in the order of its attempts.
    async fn deliveries(&self) -> Result<Vec<Value>> {
        Ok(in_order_of_attempts(deliveries(self.merchant, &format!("endpointId={}", self.id)).await?))
    }

    /// Waits until no delivery is pending and asserts that there are `count`.
    async fn done(&self, count: usize) -> Result<Vec<Value>> {
        let done = eventually("all deliveries to end", async || {
            let deliveries = self.deliveries().await?;
            let pending = deliveries.iter().any(|delivery| delivery["status"] == "pending");
            Ok((!pending && deliveries.len() >= count).then_some(deliveries))
        });
        let done = done.await?;
        assert_eq!(done.len(), count, "{:#?}", summaries(&done));
        Ok(done)
    }

    /// Waits until its deliveries, oldest first, have these summaries.
    async fn wait_for(&self, expected: &[&str]) -> Result<Vec<Value>> {
        let mut last = Vec::new();
        let matching = eventually("deliveries", async || {
            let deliveries = self.deliveries().await?;
            last = summaries(&deliveries);
            Ok((last == expected).then_some(deliveries))
        });
        let matching = matching.await;
        matching.with_context(|| format!("{last:#?} instead of {expected:#?}"))
    }

    /// Changes columns of the endpoint's row that a merchant cannot set.
    async fn set(&self, assignments: &'static str) -> Result<()> {
        let query = format!("UPDATE webhook_endpoints SET {assignments} WHERE id = $1");
        sqlx::query(AssertSqlSafe(query)).bind(uuid(&self.id)?).execute(&self.merchant.books.db).await?;
        Ok(())
    }

    /// Whether an SQL condition holds for the endpoint's row.
    async fn is(&self, condition: &'static str) -> Result<bool> {
        let query = AssertSqlSafe(format!("SELECT {condition} FROM webhook_endpoints WHERE id = $1"));
        Ok(sqlx::query_scalar(query).bind(uuid(&self.id)?).fetch_one(&self.merchant.books.db).await?)
    }

    /// Pauses the endpoint until [`Self::resume`].
    async fn pause(&self) -> Result<()> {
        self.set("paused_until = 'infinity'").await
    }

    async fn resume(&self) -> Result<()> {
        self.set("paused_until = NULL").await
    }

    /// Waits until the only retry is scheduled, and postpones it until [`Self::retry_now`], so that it does not happen
    /// while the test looks at it.
    async fn postpone_retry(&self) -> Result<()> {
        let query = "UPDATE webhook_pending SET due_at = now() + interval '1 hour'
                     WHERE endpoint_id = $1 AND attempt > 1 AND lease_until IS NULL";
        let id = uuid(&self.id)?;
        eventually("a scheduled retry", async || {
            let postponed = sqlx::query(query).bind(id).execute(&self.merchant.books.db).await?;
            Ok((postponed.rows_affected() == 1).then_some(()))
        })
        .await
    }

    /// Makes the next attempt of each delivery due now.
    async fn retry_now(&self) -> Result<()> {
        let query = "UPDATE webhook_pending SET due_at = clock_timestamp() WHERE endpoint_id = $1 AND due_at > now()";
        sqlx::query(query).bind(uuid(&self.id)?).execute(&self.merchant.books.db).await?;
        Ok(())
    }
}

/// All deliveries of the merchant that match the filter, oldest first.
async fn deliveries(merchant: &Merchant, filter: &str) -> Result<Vec<Value>> {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let path = format!("/v1/webhook_deliveries?limit=100&{filter}{cursor}");
        let page = merchant.api.get(&path).await?;
        let body = ok(&page);
        all.extend(body["data"].as_array().context("a list has data")?.iter().cloned());
        match body["nextCursor"].as_str() {
            Some(next) => cursor = format!("&startingAfter={next}"),
            None => break,
        }
    }
    all.reverse();
    Ok(all)
}

/// Sorts the deliveries of each event by attempt, replays last. The list is sorted by ids: that of a first attempt is
/// dated by the clock of a process, that of a retry by the database's, and the two may differ by half a round trip.
fn in_order_of_attempts(deliveries: Vec<Value>) -> Vec<Value> {
    let mut of_events: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    let events: Vec<_> = deliveries.iter().map(|delivery| delivery["eventId"].to_string()).collect();
    // From the last to the first, because each event's next delivery is popped from the end.
    for delivery in deliveries.into_iter().rev() {
        of_events.entry(delivery["eventId"].to_string()).or_default().push(delivery);
    }
    for deliveries in of_events.values_mut() {
        deliveries.sort_by_key(|one| Reverse((one["replayOf"].is_string(), one["attempt"].as_i64())));
    }
    events.iter().filter_map(|event| of_events.get_mut(event)?.pop()).collect()
}

/// Waits until the merchant has no pending delivery.
async fn nothing_is_pending(merchant: &Merchant) -> Result<()> {
    eventually("no pending delivery", async || {
        Ok(deliveries(merchant, "status=pending").await?.is_empty().then_some(()))
    })
    .await
}

/// Waits until a statement in this database waits for a lock, such as one that the test holds.
async fn wait_for_blocked_statement(db: &PgPool) -> Result<()> {
    let query = "SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database()
                 AND wait_event_type = 'Lock'";
    eventually("a statement to wait for the lock", async || {
        Ok(sqlx::query_scalar::<_, bool>(query).fetch_one(db).await?.then_some(()))
    })
    .await
}

/// Waits until a delivery is no longer pending.
async fn ended(merchant: &Merchant, delivery: &str) -> Result<Value> {
    eventually("the delivery to end", async || {
        let response = merchant.api.get(&format!("/v1/webhook_deliveries/{delivery}")).await?;
        Ok((ok(&response)["status"] != "pending").then_some(response.body))
    })
    .await
}

/// Requests a replay of a delivery.
async fn replay(merchant: &Merchant, delivery: &Value) -> Result<Response> {
    let path = format!("/v1/webhook_deliveries/{}/replay", id(delivery)?);
    merchant.api.send(reqwest::Method::POST, &path, None).await
}

/// A short summary of a delivery: `2 failed status 500`, `1 succeeded 200`, `1 pending`.
fn summary(delivery: &Value) -> String {
    let part = |field: &str| match (&delivery[field], delivery[field].as_str()) {
        (_, Some(text)) => format!(" {text}"),
        (Value::Null, None) => String::new(),
        (number, None) => format!(" {number}"),
    };
    ["attempt", "status", "failureReason", "responseStatus"].map(part).concat().trim_start().to_owned()
}

fn summaries(deliveries: &[Value]) -> Vec<String> {
    deliveries.iter().map(summary).collect()
}

/// The `webhook-signature` of a body, computed with one secret.
pub(crate) fn signature(secret: &str, id: &str, timestamp: &str, body: &[u8]) -> Result<String> {
    let key = STANDARD.decode(secret.strip_prefix("whsec_").context("a secret begins with whsec_")?)?;
    let mut mac = Hmac::<Sha256>::new_from_slice(&key)?;
    mac.update(format!("{id}.{timestamp}.").as_bytes());
    mac.update(body);
    Ok(format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())))
}

/// Whether the request is signed with exactly these secrets, in this order.
fn is_signed_with(request: &Request, secrets: &[&str]) -> Result<bool> {
    let sign = |secret: &&str| {
        signature(secret, request.header("webhook-id"), request.header("webhook-timestamp"), &request.body)
    };
    let expected = secrets.iter().map(sign).collect::<Result<Vec<_>>>()?;
    Ok(request.header("webhook-signature") == expected.join(" "))
}

/// Asserts that all requests carry the same event in the same bytes.
#[track_caller]
fn assert_same(requests: &[Request]) {
    for request in requests {
        assert_eq!(request.header("webhook-id"), requests[0].header("webhook-id"));
        assert!(request.body == requests[0].body, "the bytes of an event never change");
    }
}

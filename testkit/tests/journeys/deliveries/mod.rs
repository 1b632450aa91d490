//! What a merchant's endpoints hear, when, and what is shown of it: over the real network, from receivers that behave and
//! from others that do not.

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
mod pauses;
mod replays;
mod retries;
mod rotation;
mod storm;
mod unsigned;

use anyhow::{Context, Result};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use sqlx::{AssertSqlSafe, PgPool};
use testkit::Answer;

use crate::support::{Merchant, Receiver, Request, created, eventually, id, ok, uuid};

/// What a merchant told us of a receiver's path.
struct Endpoint<'a> {
    merchant: &'a Merchant,
    id: String,
    secret: String,
}

impl<'a> Endpoint<'a> {
    /// Tells us of this path of a receiver, and of the events it wants: none are all.
    async fn new(merchant: &'a Merchant, receiver: &Receiver, path: &str, events: &[&str]) -> Result<Self> {
        let body = json!({"url": receiver.url(path), "enabledEvents": events});
        let answer = merchant.api.post("/v1/webhook_endpoints", body).await?;
        let secret = created(&answer)["secret"].as_str().context("a secret")?.to_owned();
        Ok(Self { merchant, id: id(&answer.body)?, secret })
    }

    fn path(&self) -> String {
        format!("/v1/webhook_endpoints/{}", self.id)
    }

    async fn shown(&self) -> Result<Value> {
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

    /// A new secret; the former one is still in `self`.
    async fn rotate(&self) -> Result<String> {
        let path = format!("{}/rotate_secret", self.path());
        let answer = self.merchant.api.send(reqwest::Method::POST, &path, None).await?;
        Ok(ok(&answer)["secret"].as_str().context("a secret")?.to_owned())
    }

    /// Once the endpoint is in this status.
    async fn becomes(&self, status: &str) -> Result<Value> {
        eventually(status, async || {
            let shown = self.shown().await?;
            Ok((shown["status"] == status).then_some(shown))
        })
        .await
    }

    /// Its deliveries, oldest first.
    async fn deliveries(&self) -> Result<Vec<Value>> {
        deliveries(self.merchant, &format!("endpointId={}", self.id)).await
    }

    /// Its deliveries once they are so many and none is pending.
    async fn done(&self, count: usize) -> Result<Vec<Value>> {
        let done = eventually("an end of all deliveries", async || {
            let deliveries = self.deliveries().await?;
            let pending = deliveries.iter().any(|delivery| delivery["status"] == "pending");
            Ok((!pending && deliveries.len() >= count).then_some(deliveries))
        });
        let done = done.await?;
        assert_eq!(done.len(), count, "{:#?}", stories(&done));
        Ok(done)
    }

    /// Its deliveries, oldest first, once they are these in few words.
    async fn tells(&self, expected: &[&str]) -> Result<Vec<Value>> {
        let mut last = Vec::new();
        let looked = eventually("deliveries", async || {
            let deliveries = self.deliveries().await?;
            last = stories(&deliveries);
            Ok((last == expected).then_some(deliveries))
        });
        let looked = looked.await;
        looked.with_context(|| format!("{last:#?} instead of {expected:#?}"))
    }

    /// Changes the endpoint's row as time or trouble would, and as no merchant can.
    async fn set(&self, assignments: &'static str) -> Result<()> {
        let query = format!("UPDATE webhook_endpoints SET {assignments} WHERE id = $1");
        sqlx::query(AssertSqlSafe(query)).bind(uuid(&self.id)?).execute(&self.merchant.books.db).await?;
        Ok(())
    }

    /// Whether this holds of the endpoint's row.
    async fn is(&self, condition: &'static str) -> Result<bool> {
        let query = AssertSqlSafe(format!("SELECT {condition} FROM webhook_endpoints WHERE id = $1"));
        Ok(sqlx::query_scalar(query).bind(uuid(&self.id)?).fetch_one(&self.merchant.books.db).await?)
    }

    /// Nothing is sent until [`Self::resume`].
    async fn pause(&self) -> Result<()> {
        self.set("paused_until = 'infinity'").await
    }

    async fn resume(&self) -> Result<()> {
        self.set("paused_until = NULL").await
    }

    /// Time passes until the next attempt of each delivery.
    async fn retry_now(&self) -> Result<()> {
        let query = "UPDATE webhook_pending SET due_at = clock_timestamp() WHERE endpoint_id = $1 AND due_at > now()";
        sqlx::query(query).bind(uuid(&self.id)?).execute(&self.merchant.books.db).await?;
        Ok(())
    }
}

/// The merchant's deliveries under this filter, oldest first, from all pages.
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

/// Waits until nothing of this merchant's is still to be sent.
async fn nothing_is_pending(merchant: &Merchant) -> Result<()> {
    eventually("an end of all deliveries", async || {
        Ok(deliveries(merchant, "status=pending").await?.is_empty().then_some(()))
    })
    .await
}

/// Waits until a statement of this cluster's waits for a lock, such as the test holds.
async fn somebody_waits_for_a_lock(db: &PgPool) -> Result<()> {
    let query = "SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database()
                 AND wait_event_type = 'Lock'";
    eventually("somebody to wait for the lock", async || {
        Ok(sqlx::query_scalar::<_, bool>(query).fetch_one(db).await?.then_some(()))
    })
    .await
}

/// The delivery with this id, once it is no longer pending.
async fn ended(merchant: &Merchant, delivery: &str) -> Result<Value> {
    eventually("an end of the delivery", async || {
        let answer = merchant.api.get(&format!("/v1/webhook_deliveries/{delivery}")).await?;
        Ok((ok(&answer)["status"] != "pending").then_some(answer.body))
    })
    .await
}

/// Asks for a delivery to be made once more.
async fn replay(merchant: &Merchant, delivery: &Value) -> Result<Answer> {
    let path = format!("/v1/webhook_deliveries/{}/replay", id(delivery)?);
    merchant.api.send(reqwest::Method::POST, &path, None).await
}

/// A delivery in few words: `2 failed status 500`, `1 succeeded 200`, `1 pending`.
fn story(delivery: &Value) -> String {
    let part = |field: &str| match (&delivery[field], delivery[field].as_str()) {
        (_, Some(text)) => format!(" {text}"),
        (Value::Null, None) => String::new(),
        (number, None) => format!(" {number}"),
    };
    ["attempt", "status", "failureReason", "responseStatus"].map(part).concat().trim_start().to_owned()
}

fn stories(deliveries: &[Value]) -> Vec<String> {
    deliveries.iter().map(story).collect()
}

/// What a holder of the secret says of a body: the header `webhook-signature`, of one secret.
pub(crate) fn signature(secret: &str, id: &str, timestamp: &str, body: &[u8]) -> Result<String> {
    let key = STANDARD.decode(secret.strip_prefix("whsec_").context("a secret begins with whsec_")?)?;
    let mut mac = Hmac::<Sha256>::new_from_slice(&key)?;
    mac.update(format!("{id}.{timestamp}.").as_bytes());
    mac.update(body);
    Ok(format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())))
}

/// The request is signed with these secrets, in this order, and no other.
fn is_signed_with(request: &Request, secrets: &[&str]) -> Result<bool> {
    let sign = |secret: &&str| {
        signature(secret, request.header("webhook-id"), request.header("webhook-timestamp"), &request.body)
    };
    let expected = secrets.iter().map(sign).collect::<Result<Vec<_>>>()?;
    Ok(request.header("webhook-signature") == expected.join(" "))
}

/// Requests tell of the same event in the same bytes.
#[track_caller]
fn assert_same(requests: &[Request]) {
    for request in requests {
        assert_eq!(request.header("webhook-id"), requests[0].header("webhook-id"));
        assert!(request.body == requests[0].body, "the bytes of an event never change");
    }
}

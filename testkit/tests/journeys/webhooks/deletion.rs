//! Deleting an endpoint: it is not found any more, and no attempt starts after the response.

use anyhow::Result;
use reqwest::Method;
use serde_json::json;
use testkit::Response;
use tokio::time::{Duration, Instant};

use super::{ENDPOINTS, Event, endpoint, insert_pending, merchant};
use crate::support::{Merchant, concurrently, eventually, ids, not_found, ok, uuid};

/// How long after its claim an attempt may start; equals `START_WINDOW` of the worker.
const START_WINDOW: Duration = Duration::from_secs(2);

async fn delete(merchant: &Merchant, endpoint: &str) -> Result<Response> {
    merchant.api.delete(&format!("{ENDPOINTS}/{endpoint}")).await
}

/// Claims a delivery for an hour, as a worker does.
async fn claim(merchant: &Merchant, delivery: &str, db: impl sqlx::PgExecutor<'_>) -> Result<()> {
    sqlx::query(
        "UPDATE webhook_pending SET due_at = clock_timestamp(), lease_until = clock_timestamp() + interval '1 hour'
         WHERE account_id = $1 AND id = $2",
    )
    .bind(merchant.books.account)
    .bind(uuid(delivery)?)
    .execute(db)
    .await?;
    Ok(())
}

#[tokio::test]
async fn deleted_endpoints_are_not_found() -> Result<()> {
    let merchant = merchant().await?;
    let (deleted, kept) = (endpoint(&merchant).await?, endpoint(&merchant).await?);
    let response = delete(&merchant, &deleted).await?;
    assert_eq!(ok(&response), &json!({"id": deleted, "object": "webhook_endpoint", "deleted": true}));
    let path = format!("{ENDPOINTS}/{deleted}");
    not_found(&merchant.api.get(&path).await?);
    not_found(&merchant.api.post(&path, json!({"status": "enabled"})).await?);
    not_found(&merchant.api.send(Method::POST, &format!("{path}/rotate_secret"), None).await?);
    not_found(&delete(&merchant, &deleted).await?);
    assert_eq!(ids(&merchant.api.get(ENDPOINTS).await?), [kept]);
    Ok(())
}

#[tokio::test]
async fn concurrent_deletions_succeed_once() -> Result<()> {
    let merchant = merchant().await?;
    let endpoint = endpoint(&merchant).await?;
    let responses = concurrently(8, async |_| delete(&merchant, &endpoint).await).await?;
    let (succeeded, failed): (Vec<_>, Vec<_>) = responses.iter().partition(|response| response.status == 200);
    assert_eq!(succeeded.len(), 1);
    failed.into_iter().for_each(not_found);
    Ok(())
}

#[tokio::test]
async fn deletion_waits_until_claimed_attempts_cannot_start() -> Result<()> {
    let merchant = merchant().await?;
    let event = Event::create(&merchant).await?;
    let endpoint = endpoint(&merchant).await?;
    let claimed = insert_pending(&merchant, &endpoint, &event).await?;
    claim(&merchant, &claimed, &merchant.books.db).await?;
    let started = Instant::now();
    ok(&delete(&merchant, &endpoint).await?);
    // A minimum, not a performance limit: a claimed attempt may start within the window.
    assert!(started.elapsed() >= START_WINDOW, "the response came while an attempt could still start");
    Ok(())
}

#[tokio::test]
async fn deletion_waits_for_a_claim_in_progress() -> Result<()> {
    let merchant = merchant().await?;
    let event = Event::create(&merchant).await?;
    let endpoint = endpoint(&merchant).await?;
    let delivery = insert_pending(&merchant, &endpoint, &event).await?;

    // A worker that is claiming holds a key lock on the endpoint.
    let mut worker = merchant.books.db.begin().await?;
    let key = "SELECT id FROM webhook_endpoints WHERE id = $1 FOR KEY SHARE";
    sqlx::query(key).bind(uuid(&endpoint)?).execute(&mut *worker).await?;
    let deletion = async {
        let response = delete(&merchant, &endpoint).await?;
        Ok::<_, anyhow::Error>((response, Instant::now()))
    };
    let claiming = async {
        eventually("the deletion to wait for the claim", async || {
            let waiting = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database()
                           AND wait_event_type = 'Lock' AND query LIKE '%webhook_endpoints%FOR UPDATE%')";
            let waits: bool = sqlx::query_scalar(waiting).fetch_one(&merchant.books.db).await?;
            Ok(waits.then_some(()))
        })
        .await?;
        claim(&merchant, &delivery, &mut *worker).await?;
        let claimed = Instant::now();
        worker.commit().await?;
        Ok(claimed)
    };
    let ((response, responded_at), claimed) = tokio::try_join!(deletion, claiming)?;
    ok(&response);
    assert!(responded_at - claimed >= START_WINDOW, "the response came while the attempt could still start");
    Ok(())
}

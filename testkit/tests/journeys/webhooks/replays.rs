//! Replays send an event to its endpoint again, as a separate delivery.

use std::collections::HashSet;

use anyhow::Result;
use reqwest::Method;
use serde_json::json;
use testkit::Response;

use super::{DELIVERIES, ENDPOINTS, Event, delivery, endpoint, finish, insert_finished, insert_pending, merchant};
use crate::support::{Merchant, concurrently, conflict, id, ids, ok, uuid};

async fn replay(merchant: &Merchant, delivery: &str) -> Result<Response> {
    merchant.api.send(Method::POST, &format!("{DELIVERIES}/{delivery}/replay"), None).await
}

/// The number of pending deliveries that are due.
async fn due(merchant: &Merchant) -> Result<i64> {
    let query = "SELECT count(*) FROM webhook_pending WHERE account_id = $1 AND due_at <= clock_timestamp()";
    Ok(sqlx::query_scalar(query).bind(merchant.books.account).fetch_one(&merchant.books.db).await?)
}

/// The number of replays of a delivery, pending or finished.
async fn replays(merchant: &Merchant, delivery: &str) -> Result<usize> {
    let query = "SELECT count(*) FROM (SELECT replay_of FROM webhook_pending WHERE account_id = $1 UNION ALL
                     SELECT replay_of FROM webhook_deliveries WHERE account_id = $1) d WHERE replay_of = $2";
    let count = sqlx::query_scalar(query).bind(merchant.books.account).bind(uuid(delivery)?);
    let count: i64 = count.fetch_one(&merchant.books.db).await?;
    Ok(usize::try_from(count)?)
}

#[tokio::test]
async fn replays_are_separate_deliveries() -> Result<()> {
    let merchant = merchant().await?;
    let event = Event::create(&merchant).await?;
    let endpoint = endpoint(&merchant).await?;
    for (n, status) in ["succeeded", "failed"].into_iter().enumerate() {
        let first = insert_finished(&merchant, &endpoint, &event, status).await?;
        let set =
            "UPDATE webhook_deliveries SET attempt = 7, response_status = 500, response_body = 'no', duration_ms = 5,
                          next_attempt_at = clock_timestamp() WHERE id = $1";
        sqlx::query(set).bind(uuid(&first)?).execute(&merchant.books.db).await?;
        let before = delivery(&merchant, &first).await?;
        let response = replay(&merchant, &first).await?;
        let replayed = ok(&response);
        let expected = json!({
            "id": replayed["id"], "object": "webhook_delivery", "livemode": false, "createdAt": replayed["createdAt"],
            "eventId": event.api_id(), "eventType": event.kind, "endpointId": endpoint, "attempt": 1, "status": "pending",
            "nextAttemptAt": replayed["nextAttemptAt"], "replayOf": first, "payload": event.payload,
        });
        assert_eq!(replayed, &expected);
        assert!(replayed["nextAttemptAt"].is_string() && replayed["id"] != before["id"]);
        assert_eq!(&delivery(&merchant, &id(replayed)?).await?, replayed);
        assert_eq!(delivery(&merchant, &first).await?, before, "the original delivery is unchanged");
        assert_eq!(due(&merchant).await?, i64::try_from(n)? + 1, "the replay is due immediately");
    }
    Ok(())
}

#[tokio::test]
async fn finished_replays_can_be_replayed() -> Result<()> {
    let merchant = merchant().await?;
    let event = Event::create(&merchant).await?;
    let endpoint = endpoint(&merchant).await?;
    let first = insert_finished(&merchant, &endpoint, &event, "succeeded").await?;
    let replayed = id(ok(&replay(&merchant, &first).await?))?;
    conflict(&replay(&merchant, &replayed).await?);
    conflict(&replay(&merchant, &insert_pending(&merchant, &endpoint, &event).await?).await?);
    finish(&merchant, &replayed).await?;
    assert_eq!(ok(&replay(&merchant, &replayed).await?)["replayOf"], replayed.as_str());
    Ok(())
}

#[tokio::test]
async fn undeliverable_deliveries_cannot_be_replayed() -> Result<()> {
    let merchant = merchant().await?;
    let (event, deleted_event) = (Event::create(&merchant).await?, Event::create(&merchant).await?);
    let endpoint = endpoint(&merchant).await?;
    let failed = insert_finished(&merchant, &endpoint, &event, "failed").await?;
    let without_event = insert_finished(&merchant, &endpoint, &deleted_event, "failed").await?;
    sqlx::query("DELETE FROM events WHERE id = $1").bind(deleted_event.id).execute(&merchant.books.db).await?;
    conflict(&replay(&merchant, &without_event).await?);

    let path = format!("{ENDPOINTS}/{endpoint}");
    ok(&merchant.api.post(&path, json!({"status": "disabled"})).await?);
    conflict(&replay(&merchant, &failed).await?);
    assert_eq!(replays(&merchant, &failed).await?, 0, "a rejected replay creates no delivery");
    ok(&merchant.api.post(&path, json!({"status": "enabled"})).await?);
    ok(&replay(&merchant, &failed).await?);

    ok(&merchant.api.delete(&path).await?);
    conflict(&replay(&merchant, &failed).await?);
    assert_eq!(replays(&merchant, &failed).await?, 1);
    Ok(())
}

#[tokio::test]
async fn concurrent_replays_create_one_delivery_each() -> Result<()> {
    let merchant = merchant().await?;
    let event = Event::create(&merchant).await?;
    let endpoint = endpoint(&merchant).await?;
    let first = insert_finished(&merchant, &endpoint, &event, "failed").await?;
    let responses = concurrently(30, async |_| replay(&merchant, &first).await).await?;
    let created = responses.iter().map(|response| id(ok(response))).collect::<Result<HashSet<_>>>()?;
    assert_eq!((created.len(), replays(&merchant, &first).await?), (30, 30));
    let listed = ids(&merchant.api.get(&format!("{DELIVERIES}?status=pending&limit=100")).await?);
    assert_eq!(listed.into_iter().collect::<HashSet<_>>(), created);
    Ok(())
}

#[tokio::test]
async fn replays_during_a_deletion_succeed_or_conflict() -> Result<()> {
    let merchant = merchant().await?;
    let event = Event::create(&merchant).await?;
    let endpoint = endpoint(&merchant).await?;
    let first = insert_finished(&merchant, &endpoint, &event, "failed").await?;
    let path = format!("{ENDPOINTS}/{endpoint}");
    let responses = concurrently(12, async |i| {
        if i == 6 {
            ok(&merchant.api.delete(&path).await?);
            return Ok(None);
        }
        replay(&merchant, &first).await.map(Some)
    })
    .await?;
    let (succeeded, conflicts): (Vec<_>, Vec<_>) =
        responses.iter().flatten().partition(|response| response.status == 200);
    conflicts.into_iter().for_each(conflict);
    assert_eq!(replays(&merchant, &first).await?, succeeded.len(), "as many replays as successful responses");
    conflict(&replay(&merchant, &first).await?);
    Ok(())
}

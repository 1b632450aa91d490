//! Replays: the same event to the same endpoint once more, as a delivery of its own.

use std::collections::HashSet;

use anyhow::Result;
use reqwest::Method;
use serde_json::json;
use testkit::Answer;

use super::{DELIVERIES, ENDPOINTS, Event, delivery, endpoint, ends, made, merchant, pending};
use crate::support::{Merchant, conflict, id, ids, ok, together, uuid};

async fn replay(merchant: &Merchant, delivery: &str) -> Result<Answer> {
    merchant.api.send(Method::POST, &format!("{DELIVERIES}/{delivery}/replay"), None).await
}

/// Rows that wait to be sent and are due.
async fn due(merchant: &Merchant) -> Result<i64> {
    let query = "SELECT count(*) FROM webhook_pending WHERE account_id = $1 AND due_at <= clock_timestamp()";
    Ok(sqlx::query_scalar(query).bind(merchant.books.account).fetch_one(&merchant.books.db).await?)
}

/// Replays of a delivery, whatever has become of them.
async fn replays(merchant: &Merchant, delivery: &str) -> Result<usize> {
    let query = "SELECT count(*) FROM (SELECT replay_of FROM webhook_pending WHERE account_id = $1 UNION ALL
                     SELECT replay_of FROM webhook_deliveries WHERE account_id = $1) d WHERE replay_of = $2";
    let count = sqlx::query_scalar(query).bind(merchant.books.account).bind(uuid(delivery)?);
    let count: i64 = count.fetch_one(&merchant.books.db).await?;
    Ok(usize::try_from(count)?)
}

#[tokio::test]
async fn a_replay_is_a_delivery_of_its_own() -> Result<()> {
    let merchant = merchant().await?;
    let event = Event::of(&merchant).await?;
    let endpoint = endpoint(&merchant).await?;
    for (n, end) in ["succeeded", "failed"].into_iter().enumerate() {
        let first = made(&merchant, &endpoint, &event, end).await?;
        let set =
            "UPDATE webhook_deliveries SET attempt = 7, response_status = 500, response_body = 'no', duration_ms = 5,
                          next_attempt_at = clock_timestamp() WHERE id = $1";
        sqlx::query(set).bind(uuid(&first)?).execute(&merchant.books.db).await?;
        let before = delivery(&merchant, &first).await?;
        let answer = replay(&merchant, &first).await?;
        let again = ok(&answer);
        let expected = json!({
            "id": again["id"], "object": "webhook_delivery", "livemode": false, "createdAt": again["createdAt"],
            "eventId": event.name(), "eventType": event.kind, "endpointId": endpoint, "attempt": 1, "status": "pending",
            "nextAttemptAt": again["nextAttemptAt"], "replayOf": first, "payload": event.payload,
        });
        assert_eq!(again, &expected);
        assert!(again["nextAttemptAt"].is_string() && again["id"] != before["id"]);
        assert_eq!(&delivery(&merchant, &id(again)?).await?, again);
        assert_eq!(delivery(&merchant, &first).await?, before, "the first stays as it is");
        assert_eq!(due(&merchant).await?, i64::try_from(n)? + 1, "it is due at once");
    }
    Ok(())
}

#[tokio::test]
async fn a_replay_can_be_replayed_once_it_was_made() -> Result<()> {
    let merchant = merchant().await?;
    let event = Event::of(&merchant).await?;
    let endpoint = endpoint(&merchant).await?;
    let first = made(&merchant, &endpoint, &event, "succeeded").await?;
    let again = id(ok(&replay(&merchant, &first).await?))?;
    conflict(&replay(&merchant, &again).await?);
    conflict(&replay(&merchant, &pending(&merchant, &endpoint, &event).await?).await?);
    ends(&merchant, &again).await?;
    assert_eq!(ok(&replay(&merchant, &again).await?)["replayOf"], again.as_str());
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_sent_is_not_replayed() -> Result<()> {
    let merchant = merchant().await?;
    let (event, forgotten) = (Event::of(&merchant).await?, Event::of(&merchant).await?);
    let endpoint = endpoint(&merchant).await?;
    let failed = made(&merchant, &endpoint, &event, "failed").await?;
    let old = made(&merchant, &endpoint, &forgotten, "failed").await?;
    sqlx::query("DELETE FROM events WHERE id = $1").bind(forgotten.id).execute(&merchant.books.db).await?;
    conflict(&replay(&merchant, &old).await?);

    let path = format!("{ENDPOINTS}/{endpoint}");
    ok(&merchant.api.post(&path, json!({"status": "disabled"})).await?);
    conflict(&replay(&merchant, &failed).await?);
    assert_eq!(replays(&merchant, &failed).await?, 0, "a refused one leaves nothing");
    ok(&merchant.api.post(&path, json!({"status": "enabled"})).await?);
    ok(&replay(&merchant, &failed).await?);

    ok(&merchant.api.delete(&path).await?);
    conflict(&replay(&merchant, &failed).await?);
    assert_eq!(replays(&merchant, &failed).await?, 1);
    Ok(())
}

#[tokio::test]
async fn replays_at_once_are_as_many_deliveries() -> Result<()> {
    let merchant = merchant().await?;
    let event = Event::of(&merchant).await?;
    let endpoint = endpoint(&merchant).await?;
    let first = made(&merchant, &endpoint, &event, "failed").await?;
    let answers = together(30, async |_| replay(&merchant, &first).await).await?;
    let made = answers.iter().map(|answer| id(ok(answer))).collect::<Result<HashSet<_>>>()?;
    assert_eq!((made.len(), replays(&merchant, &first).await?), (30, 30));
    let listed = ids(&merchant.api.get(&format!("{DELIVERIES}?status=pending&limit=100")).await?);
    assert_eq!(listed.into_iter().collect::<HashSet<_>>(), made);
    Ok(())
}

#[tokio::test]
async fn replays_beside_a_deletion_are_made_or_refused() -> Result<()> {
    let merchant = merchant().await?;
    let event = Event::of(&merchant).await?;
    let endpoint = endpoint(&merchant).await?;
    let first = made(&merchant, &endpoint, &event, "failed").await?;
    let path = format!("{ENDPOINTS}/{endpoint}");
    let answers = together(12, async |i| {
        if i == 6 {
            ok(&merchant.api.delete(&path).await?);
            return Ok(None);
        }
        replay(&merchant, &first).await.map(Some)
    })
    .await?;
    let (won, lost): (Vec<_>, Vec<_>) = answers.iter().flatten().partition(|answer| answer.status == 200);
    lost.into_iter().for_each(conflict);
    assert_eq!(replays(&merchant, &first).await?, won.len(), "as many as were promised");
    conflict(&replay(&merchant, &first).await?);
    Ok(())
}

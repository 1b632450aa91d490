//! Deliveries as they are shown: pending or made, they are one list.

use anyhow::Result;
use serde_json::{Value, json};

use super::{DELIVERIES, ENDPOINTS, Event, delivery, endpoint, ends, made, merchant, pending};
use crate::support::{ids, invalid, is_listed, not_found, ok, printed, said_of, uuid};

#[tokio::test]
async fn a_delivery_shows_what_was_sent_and_what_was_answered() -> Result<()> {
    let merchant = merchant().await?;
    let event = Event::of(&merchant).await?;
    let endpoint = endpoint(&merchant).await?;
    let shown = |id: &str, more: Value| {
        let mut shown = json!({
            "id": id, "object": "webhook_delivery", "livemode": false, "createdAt": "2026-11-21T09:30:00.000Z",
            "eventId": event.name(), "eventType": event.kind, "endpointId": endpoint, "payload": event.payload,
        });
        for (name, value) in more.as_object().into_iter().flatten() {
            shown[name] = value.clone();
        }
        shown
    };

    let waiting = pending(&merchant, &endpoint, &event).await?;
    let set = "UPDATE webhook_pending SET created_at = '2026-11-21T09:30:00Z', due_at = '2096-11-21T09:30:05.207Z',
                      attempt = 2 WHERE id = $1";
    sqlx::query(set).bind(uuid(&waiting)?).execute(&merchant.books.db).await?;
    let more = json!({"attempt": 2, "status": "pending", "nextAttemptAt": "2096-11-21T09:30:05.207Z"});
    assert_eq!(delivery(&merchant, &waiting).await?, shown(&waiting, more));

    let full = "UPDATE webhook_deliveries SET created_at = '2026-11-21T09:30:00Z', attempt = 3, response_status = 503,
                       response_body = 'busy', duration_ms = 84, attempted_at = '2026-11-21T09:30:01Z',
                       next_attempt_at = '2026-11-21T09:35:01Z', replay_of = $2 WHERE id = $1";
    let failed = made(&merchant, &endpoint, &event, "failed").await?;
    sqlx::query(full).bind(uuid(&failed)?).bind(uuid(&waiting)?).execute(&merchant.books.db).await?;
    let more = json!({
        "attempt": 3, "status": "failed", "responseStatus": 503, "responseBody": "busy", "durationMs": 84,
        "attemptedAt": "2026-11-21T09:30:01.000Z", "nextAttemptAt": "2026-11-21T09:35:01.000Z",
        "failureReason": "timeout", "replayOf": waiting,
    });
    assert_eq!(delivery(&merchant, &failed).await?, shown(&failed, more));

    let bare = "UPDATE webhook_deliveries SET created_at = '2026-11-21T09:30:00Z', attempted_at = NULL WHERE id = $1";
    let succeeded = made(&merchant, &endpoint, &event, "succeeded").await?;
    sqlx::query(bare).bind(uuid(&succeeded)?).execute(&merchant.books.db).await?;
    assert_eq!(delivery(&merchant, &succeeded).await?, shown(&succeeded, json!({"attempt": 1, "status": "succeeded"})));

    let page = merchant.api.get(DELIVERIES).await?;
    for row in ok(&page)["data"].as_array().into_iter().flatten() {
        assert_eq!(row, &delivery(&merchant, row["id"].as_str().unwrap_or_default()).await?, "as in the list");
    }
    assert_eq!(ids(&page).len(), 3);

    sqlx::query("DELETE FROM events WHERE id = $1").bind(event.id).execute(&merchant.books.db).await?;
    let forgotten = delivery(&merchant, &succeeded).await?;
    assert!(forgotten.get("payload").is_none() && forgotten.get("eventType").is_none(), "{forgotten}");
    assert_eq!(forgotten["eventId"], event.name());
    Ok(())
}

#[tokio::test]
async fn another_accounts_delivery_is_as_unknown_as_any() -> Result<()> {
    let (merchant, stranger) = (merchant().await?, merchant().await?);
    let event = Event::of(&merchant).await?;
    let endpoint = endpoint(&merchant).await?;
    let unknown = "whd_01ARZ3NDEKTSV4RRFFQ69G5FAV";
    let expected = stranger.api.get(&format!("{DELIVERIES}/{unknown}")).await?;
    for id in [
        pending(&merchant, &endpoint, &event).await?,
        made(&merchant, &endpoint, &event, "failed").await?,
        unknown.to_owned(),
        "nonsense".to_owned(),
    ] {
        let answer = stranger.api.get(&format!("{DELIVERIES}/{id}")).await?;
        not_found(&answer);
        assert_eq!(said_of(&answer, &id), said_of(&expected, unknown));
        not_found(&stranger.api.post(&format!("{DELIVERIES}/{id}/replay"), json!({})).await?);
        invalid(&stranger.api.get(&format!("{DELIVERIES}?startingAfter={id}")).await?, "startingAfter");
    }
    assert!(ids(&stranger.api.get(DELIVERIES).await?).is_empty());
    Ok(())
}

#[tokio::test]
async fn pages_hold_each_delivery_once_whatever_has_become_of_it() -> Result<()> {
    let merchant = merchant().await?;
    let event = Event::of(&merchant).await?;
    let (one, other) = (endpoint(&merchant).await?, endpoint(&merchant).await?);
    let mut all = Vec::new();
    for status in ["pending", "succeeded", "failed", "pending", "succeeded", "failed", "failed"] {
        for endpoint in [&one, &other, &one] {
            let id = match status {
                "pending" => pending(&merchant, endpoint, &event).await?,
                end => made(&merchant, endpoint, &event, end).await?,
            };
            all.push((id, endpoint.clone(), status));
        }
    }
    all.sort_unstable_by(|(one, ..), (other, ..)| other.cmp(one));
    for endpoint in [None, Some(&one), Some(&other)] {
        for status in [None, Some("pending"), Some("succeeded"), Some("failed")] {
            let expected = all.iter().filter(|(_, to, is)| {
                endpoint.is_none_or(|endpoint| endpoint == to) && status.is_none_or(|status| status == *is)
            });
            let expected: Vec<_> = expected.map(|(id, ..)| id.clone()).collect();
            assert!(!expected.is_empty());
            let endpoint = endpoint.map(|id| format!("endpointId={id}&")).unwrap_or_default();
            let status = status.map(|status| format!("status={status}&")).unwrap_or_default();
            is_listed(&merchant.api, &format!("{DELIVERIES}?{endpoint}{status}"), &expected).await?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn what_ends_while_its_list_is_read_is_no_end_of_the_list() -> Result<()> {
    let merchant = merchant().await?;
    let event = Event::of(&merchant).await?;
    let endpoint = endpoint(&merchant).await?;
    let mut all = Vec::new();
    for _ in 0..4 {
        all.push(pending(&merchant, &endpoint, &event).await?);
    }
    all.sort_unstable_by(|one, other| other.cmp(one));
    for query in ["", "&status=pending"] {
        let first = merchant.api.get(&format!("{DELIVERIES}?limit=2{query}")).await?;
        assert_eq!(ids(&first), all[..2]);
    }
    ends(&merchant, &all[1]).await?;
    for query in ["", "&status=pending", &format!("&status=pending&endpointId={endpoint}")] {
        let next = merchant.api.get(&format!("{DELIVERIES}?limit=2{query}&startingAfter={}", all[1])).await?;
        assert_eq!(ids(&next), all[2..], "{query}");
    }
    let still = merchant.api.get(&format!("{DELIVERIES}?status=pending")).await?;
    assert_eq!(ids(&still), [all[0].as_str(), &all[2], &all[3]]);
    let ended = merchant.api.get(&format!("{DELIVERIES}?status=succeeded")).await?;
    assert_eq!(ids(&ended), all[1..2]);
    Ok(())
}

#[tokio::test]
async fn a_deleted_endpoints_deliveries_can_be_looked_at() -> Result<()> {
    let merchant = merchant().await?;
    let event = Event::of(&merchant).await?;
    let endpoint = endpoint(&merchant).await?;
    let failed = made(&merchant, &endpoint, &event, "failed").await?;
    ok(&merchant.api.delete(&format!("{ENDPOINTS}/{endpoint}")).await?);
    assert_eq!(delivery(&merchant, &failed).await?["endpointId"], endpoint.as_str());
    assert_eq!(ids(&merchant.api.get(&format!("{DELIVERIES}?endpointId={endpoint}")).await?), [failed.as_str()]);
    assert_eq!(ids(&merchant.api.get(DELIVERIES).await?), [printed("whd_", uuid(&failed)?)]);
    Ok(())
}

//! Reading deliveries: pending and finished ones form one list.

use anyhow::Result;
use serde_json::{Value, json};

use super::{DELIVERIES, ENDPOINTS, Event, delivery, endpoint, finish, insert_finished, insert_pending, merchant};
use crate::support::{api_id, assert_listed, error_text, ids, invalid, not_found, ok, uuid};

#[tokio::test]
async fn deliveries_show_the_request_and_the_response() -> Result<()> {
    let merchant = merchant().await?;
    let event = Event::create(&merchant).await?;
    let endpoint = endpoint(&merchant).await?;
    let expected = |id: &str, more: Value| {
        let mut object = json!({
            "id": id, "object": "webhook_delivery", "livemode": false, "createdAt": "2026-11-21T09:30:00.000Z",
            "eventId": event.api_id(), "eventType": event.kind, "endpointId": endpoint, "payload": event.payload,
        });
        for (name, value) in more.as_object().into_iter().flatten() {
            object[name] = value.clone();
        }
        object
    };

    let waiting = insert_pending(&merchant, &endpoint, &event).await?;
    let set = "UPDATE webhook_pending SET created_at = '2026-11-21T09:30:00Z', due_at = '2096-11-21T09:30:05.207Z',
                      attempt = 2 WHERE id = $1";
    sqlx::query(set).bind(uuid(&waiting)?).execute(&merchant.books.db).await?;
    let more = json!({"attempt": 2, "status": "pending", "nextAttemptAt": "2096-11-21T09:30:05.207Z"});
    assert_eq!(delivery(&merchant, &waiting).await?, expected(&waiting, more));

    let full = "UPDATE webhook_deliveries SET created_at = '2026-11-21T09:30:00Z', attempt = 3, response_status = 503,
                       response_body = 'busy', duration_ms = 84, attempted_at = '2026-11-21T09:30:01Z',
                       next_attempt_at = '2026-11-21T09:35:01Z', replay_of = $2 WHERE id = $1";
    let failed = insert_finished(&merchant, &endpoint, &event, "failed").await?;
    sqlx::query(full).bind(uuid(&failed)?).bind(uuid(&waiting)?).execute(&merchant.books.db).await?;
    let more = json!({
        "attempt": 3, "status": "failed", "responseStatus": 503, "responseBody": "busy", "durationMs": 84,
        "attemptedAt": "2026-11-21T09:30:01.000Z", "nextAttemptAt": "2026-11-21T09:35:01.000Z",
        "failureReason": "timeout", "replayOf": waiting,
    });
    assert_eq!(delivery(&merchant, &failed).await?, expected(&failed, more));

    let bare = "UPDATE webhook_deliveries SET created_at = '2026-11-21T09:30:00Z', attempted_at = NULL WHERE id = $1";
    let succeeded = insert_finished(&merchant, &endpoint, &event, "succeeded").await?;
    sqlx::query(bare).bind(uuid(&succeeded)?).execute(&merchant.books.db).await?;
    assert_eq!(
        delivery(&merchant, &succeeded).await?,
        expected(&succeeded, json!({"attempt": 1, "status": "succeeded"}))
    );

    let page = merchant.api.get(DELIVERIES).await?;
    for row in ok(&page)["data"].as_array().into_iter().flatten() {
        assert_eq!(
            row,
            &delivery(&merchant, row["id"].as_str().unwrap_or_default()).await?,
            "the list has the same object"
        );
    }
    assert_eq!(ids(&page).len(), 3);

    sqlx::query("DELETE FROM events WHERE id = $1").bind(event.id).execute(&merchant.books.db).await?;
    let without_event = delivery(&merchant, &succeeded).await?;
    assert!(without_event.get("payload").is_none() && without_event.get("eventType").is_none(), "{without_event}");
    assert_eq!(without_event["eventId"], event.api_id());
    Ok(())
}

#[tokio::test]
async fn deliveries_of_other_accounts_are_not_found() -> Result<()> {
    let (merchant, other_merchant) = (merchant().await?, merchant().await?);
    let event = Event::create(&merchant).await?;
    let endpoint = endpoint(&merchant).await?;
    let unknown = "whd_01ARZ3NDEKTSV4RRFFQ69G5FAV";
    let expected = other_merchant.api.get(&format!("{DELIVERIES}/{unknown}")).await?;
    for id in [
        insert_pending(&merchant, &endpoint, &event).await?,
        insert_finished(&merchant, &endpoint, &event, "failed").await?,
        unknown.to_owned(),
        "nonsense".to_owned(),
    ] {
        let response = other_merchant.api.get(&format!("{DELIVERIES}/{id}")).await?;
        not_found(&response);
        assert_eq!(error_text(&response, &id), error_text(&expected, unknown));
        not_found(&other_merchant.api.post(&format!("{DELIVERIES}/{id}/replay"), json!({})).await?);
        invalid(&other_merchant.api.get(&format!("{DELIVERIES}?startingAfter={id}")).await?, "startingAfter");
    }
    assert!(ids(&other_merchant.api.get(DELIVERIES).await?).is_empty());
    Ok(())
}

#[tokio::test]
async fn pages_list_each_delivery_once_in_every_status() -> Result<()> {
    let merchant = merchant().await?;
    let event = Event::create(&merchant).await?;
    let (one, other) = (endpoint(&merchant).await?, endpoint(&merchant).await?);
    let mut all = Vec::new();
    for status in ["pending", "succeeded", "failed", "pending", "succeeded", "failed", "failed"] {
        for endpoint in [&one, &other, &one] {
            let id = match status {
                "pending" => insert_pending(&merchant, endpoint, &event).await?,
                status => insert_finished(&merchant, endpoint, &event, status).await?,
            };
            all.push((id, endpoint.clone(), status));
        }
    }
    all.sort_unstable_by(|(one, ..), (other, ..)| other.cmp(one));
    for endpoint in [None, Some(&one), Some(&other)] {
        for status in [None, Some("pending"), Some("succeeded"), Some("failed")] {
            let expected = all.iter().filter(|(_, delivery_endpoint, delivery_status)| {
                endpoint.is_none_or(|endpoint| endpoint == delivery_endpoint)
                    && status.is_none_or(|status| status == *delivery_status)
            });
            let expected: Vec<_> = expected.map(|(id, ..)| id.clone()).collect();
            assert!(!expected.is_empty());
            let endpoint = endpoint.map(|id| format!("endpointId={id}&")).unwrap_or_default();
            let status = status.map(|status| format!("status={status}&")).unwrap_or_default();
            assert_listed(&merchant.api, &format!("{DELIVERIES}?{endpoint}{status}"), &expected).await?;
            let of_event = format!("{DELIVERIES}?{endpoint}{status}eventId={}&", api_id("evt_", event.id));
            assert_listed(&merchant.api, &of_event, &expected).await?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn deliveries_that_finish_during_paging_do_not_break_cursors() -> Result<()> {
    let merchant = merchant().await?;
    let event = Event::create(&merchant).await?;
    let endpoint = endpoint(&merchant).await?;
    let mut all = Vec::new();
    for _ in 0..4 {
        all.push(insert_pending(&merchant, &endpoint, &event).await?);
    }
    all.sort_unstable_by(|one, other| other.cmp(one));
    for query in ["", "&status=pending"] {
        let first = merchant.api.get(&format!("{DELIVERIES}?limit=2{query}")).await?;
        assert_eq!(ids(&first), all[..2]);
    }
    finish(&merchant, &all[1]).await?;
    for query in ["", "&status=pending", &format!("&status=pending&endpointId={endpoint}")] {
        let next = merchant.api.get(&format!("{DELIVERIES}?limit=2{query}&startingAfter={}", all[1])).await?;
        assert_eq!(ids(&next), all[2..], "{query}");
    }
    let still_pending = merchant.api.get(&format!("{DELIVERIES}?status=pending")).await?;
    assert_eq!(ids(&still_pending), [all[0].as_str(), &all[2], &all[3]]);
    let ended = merchant.api.get(&format!("{DELIVERIES}?status=succeeded")).await?;
    assert_eq!(ids(&ended), all[1..2]);
    Ok(())
}

#[tokio::test]
async fn deliveries_of_deleted_endpoints_remain_readable() -> Result<()> {
    let merchant = merchant().await?;
    let event = Event::create(&merchant).await?;
    let endpoint = endpoint(&merchant).await?;
    let failed = insert_finished(&merchant, &endpoint, &event, "failed").await?;
    ok(&merchant.api.delete(&format!("{ENDPOINTS}/{endpoint}")).await?);
    assert_eq!(delivery(&merchant, &failed).await?["endpointId"], endpoint.as_str());
    assert_eq!(ids(&merchant.api.get(&format!("{DELIVERIES}?endpointId={endpoint}")).await?), [failed.as_str()]);
    assert_eq!(ids(&merchant.api.get(DELIVERIES).await?), [api_id("whd_", uuid(&failed)?)]);
    Ok(())
}

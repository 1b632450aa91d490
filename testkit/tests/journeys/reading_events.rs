//! /v1/events: events by type, object and time, and following them.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::Value;

use crate::support::{created, eventually, id, ids, invalid, list_all, merchant, not_found, ok, uuid};

#[tokio::test]
async fn events_are_listed_by_type_object_and_time() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let held = merchant.hold(300).await?;
    ok(&merchant.void(&held).await?);
    let charged = merchant.charge(500).await?;
    let page = merchant.api.get("/v1/events?limit=100").await?;
    let all = ok(&page)["data"].as_array().cloned().unwrap_or_default();
    let kinds: Vec<&str> = all.iter().filter_map(|event| event["type"].as_str()).collect();
    assert_eq!(kinds, ["payment.captured", "payment.cancelled", "payment.authorized", "customer.created"]);

    let of = |matches: &dyn Fn(&Value) -> bool| -> Vec<String> {
        all.iter().filter(|event| matches(event)).filter_map(|event| id(event).ok()).collect()
    };
    let expect = async |query: &str, expected: Vec<String>| {
        assert!(!expected.is_empty(), "{query}");
        for limit in [1, 100] {
            assert_eq!(list_all(&merchant.api, &format!("/v1/events?{query}&"), limit).await?, expected, "{query}");
        }
        anyhow::Ok(())
    };
    expect(
        "type=payment.authorized&type=customer.created",
        of(&|event| event["type"] == "payment.authorized" || event["type"] == "customer.created"),
    )
    .await?;
    expect(&format!("objectId={held}"), of(&|event| event["data"]["object"]["id"] == held)).await?;
    expect(&format!("objectId={customer}&type=customer.created"), vec![id(&all[3])?]).await?;
    let time = all[1]["timestamp"].as_str().unwrap_or_default();
    let at = |event: &Value| event["timestamp"].as_str().unwrap_or_default().to_owned();
    expect(&format!("createdFrom={time}"), of(&|event| at(event).as_str() >= time)).await?;
    expect(&format!("createdTo={time}"), of(&|event| at(event).as_str() < time)).await?;

    let event = ok(&merchant.api.get(&format!("/v1/events/{}", id(&all[0])?)).await?).clone();
    assert_eq!(event, all[0]);
    assert_eq!((&event["object"], &event["createdAt"]), (&"event".into(), &event["timestamp"]));
    assert_eq!(event["data"]["object"]["id"], charged);
    not_found(&crate::support::merchant().await?.api.get(&format!("/v1/events/{}", id(&event)?)).await?);
    for (query, param) in [
        ("type=payment.paid", "type"),
        ("objectId=nonsense", "objectId"),
        ("after=evt_01ARZ3NDEKTSV4RRFFQ69G5FAV", "after"),
        ("after=", "after"),
        ("wait=1", "wait"),
        ("wait=26&after=evt_01ARZ3NDEKTSV4RRFFQ69G5FAV", "wait"),
        (&format!("after={0}&startingAfter={0}", id(&event)?), "after"),
    ] {
        invalid(&merchant.api.get(&format!("/v1/events?{query}")).await?, param);
    }
    invalid(
        &merchant.api.header("accept", "text/csv")?.get(&format!("/v1/events?after={}", id(&event)?)).await?,
        "after",
    );
    Ok(())
}

#[tokio::test]
async fn followers_get_each_event_once_although_transactions_end_in_another_order() -> Result<()> {
    let merchant = merchant().await?;
    merchant.customer().await?;
    let first = ids(&merchant.api.get("/v1/events").await?).remove(0);
    let follow = async |after: &str| {
        Ok::<_, anyhow::Error>(ids(&merchant.api.get(&format!("/v1/events?after={after}")).await?))
    };
    assert!(follow(&first).await?.is_empty());

    // This transaction has written the next event and is still in progress when a later one is committed.
    let mut slow = merchant.books.db.begin().await?;
    let emit = "SELECT emit_event(new_ulid(now()), $1, 'customer.created', $2, now())";
    let payload =
        r#"{"type":"customer.created","timestamp":"2026-01-01T00:00:00.000Z","livemode":false,"data":{"object":{}}}"#;
    sqlx::query(emit).bind(uuid(&merchant.account.id)?).bind(payload).execute(&mut *slow).await?;
    merchant.customer().await?;
    let newest = ids(&merchant.api.get("/v1/events").await?).remove(0);
    assert!(
        newest != first && follow(&first).await?.is_empty(),
        "nothing is shown that another event may still precede"
    );
    slow.commit().await?;
    let found =
        eventually("both events", async || Ok(Some(follow(&first).await?).filter(|found| found.len() == 2))).await?;
    assert_eq!(found[1], newest);
    assert_eq!(follow(&found[0]).await?, std::slice::from_ref(&newest));
    let page = merchant.api.get(&format!("/v1/events?after={first}&limit=1")).await?;
    assert_eq!((&page.body["hasMore"], &page.body["nextCursor"]), (&true.into(), &found[0].clone().into()));
    Ok(())
}

#[tokio::test]
async fn a_request_that_waits_is_answered_by_the_next_event() -> Result<()> {
    let merchant = merchant().await?;
    merchant.customer().await?;
    let last = ids(&merchant.api.get("/v1/events").await?).remove(0);
    let began = Instant::now();
    let path = format!("/v1/events?after={last}&wait=25&type=payment.captured");
    let paying = async {
        merchant.customer().await?;
        created(&merchant.pay(700).await?);
        anyhow::Ok(())
    };
    let (found, paid) = tokio::join!(merchant.api.get(&path), paying);
    paid?;
    let found = found?;
    assert_eq!(ok(&found)["data"][0]["type"], "payment.captured");
    assert!(began.elapsed() < Duration::from_secs(20), "it did not wait until the end");
    let none = merchant.api.get(&format!("/v1/events?wait=0&after={}", ids(&found)[0])).await?;
    assert!(ids(&none).is_empty());
    Ok(())
}

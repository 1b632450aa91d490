//! Which endpoints receive an event, and the format of a delivery.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use serde_json::json;

use super::{Endpoint, is_signed_with, nothing_is_pending};
use crate::support::{Receiver, Reply, merchant, ok};

#[tokio::test]
async fn an_event_is_delivered_to_exactly_the_subscribed_endpoints() -> Result<()> {
    let receiver = Receiver::start(|_| Reply::ok()).await?;
    let (merchant, other) = (merchant().await?, merchant().await?);
    let all = Endpoint::new(&merchant, &receiver, "/all", &[]).await?;
    let customers = Endpoint::new(&merchant, &receiver, "/customers", &["customer.created"]).await?;
    let payments = ["payment.settled", "payment.captured"];
    let payments = Endpoint::new(&merchant, &receiver, "/payments", &payments).await?;
    let disabled = Endpoint::new(&merchant, &receiver, "/disabled", &[]).await?;
    disabled.update(json!({"status": "disabled"})).await?;
    let others = Endpoint::new(&other, &receiver, "/others", &[]).await?;

    merchant.customer().await?;
    merchant.charge(100).await?;
    let late = Endpoint::new(&merchant, &receiver, "/late", &[]).await?;
    merchant.customer().await?;
    other.charge(100).await?;
    nothing_is_pending(&merchant).await?;
    nothing_is_pending(&other).await?;

    for (endpoint, path, expected) in [
        (&all, "/all", &["customer.created", "customer.created", "payment.captured"][..]),
        (&customers, "/customers", &["customer.created", "customer.created"]),
        (&payments, "/payments", &["payment.captured"]),
        (&disabled, "/disabled", &[]),
        (&others, "/others", &["payment.captured"]),
        (&late, "/late", &["customer.created"]),
    ] {
        let mut event_types: Vec<_> =
            receiver.received(path).iter().map(|request| request.event()["type"].clone()).collect();
        event_types.sort_by_key(ToString::to_string);
        assert_eq!(event_types, expected, "{path}");
        let deliveries = endpoint.done(expected.len()).await?;
        let mut listed: Vec<_> = deliveries.iter().map(|delivery| delivery["eventType"].clone()).collect();
        listed.sort_by_key(ToString::to_string);
        assert_eq!(listed, expected, "{path}");
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "a receiver compares the timestamp with its own clock")]
fn now_s() -> Result<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())
}

#[tokio::test]
async fn deliveries_follow_standard_webhooks_and_list_the_response() -> Result<()> {
    let receiver = Receiver::start(|_| Reply::status(202)).await?;
    let merchant = merchant().await?;
    let endpoint = Endpoint::new(&merchant, &receiver, "/in?shop=1", &[]).await?;
    let customer = merchant.customer().await?;
    receiver.wait_for_requests("/in?shop=1", 1).await?;
    let payment = merchant.charge(100).await?;
    let requests = receiver.wait_for_requests("/in?shop=1", 2).await?;
    let deliveries = endpoint.done(2).await?;

    let expected = [
        ("customer.created", format!("/v1/customers/{customer}")),
        ("payment.captured", format!("/v1/payments/{payment}")),
    ];
    for ((request, delivery), (kind, object)) in requests.iter().zip(&deliveries).zip(expected) {
        let event = request.event();
        let object = merchant.api.get(&object).await?;
        assert_eq!(
            event,
            json!({
                "id": request.header("webhook-id"), "type": kind, "timestamp": event["timestamp"],
                "livemode": false, "data": {"object": ok(&object)},
            })
        );
        assert!(request.header("webhook-id").starts_with("evt_"));
        assert!(event["timestamp"].as_str().is_some_and(|at| at.ends_with('Z')), "{event}");
        assert!(request.header("webhook-timestamp").parse::<u64>()?.abs_diff(now_s()?) < 300);
        assert_eq!(request.header("content-type"), "application/json");
        assert!(request.header("user-agent").starts_with("UnifiedPayments-Webhooks/"));
        assert!(is_signed_with(request, &[&endpoint.secret])?, "{:?}", request.headers);

        let listed = |field: &str| delivery[field].clone();
        assert_eq!(
            delivery,
            &json!({
                "id": listed("id"), "object": "webhook_delivery", "livemode": false, "createdAt": listed("createdAt"),
                "eventId": event["id"], "eventType": kind, "endpointId": endpoint.id, "attempt": 1,
                "status": "succeeded", "responseStatus": 202, "responseBody": "status 202",
                "durationMs": listed("durationMs"), "attemptedAt": listed("attemptedAt"),
                "payload": String::from_utf8(request.body.clone())?,
            })
        );
        assert!(delivery["durationMs"].is_u64() && delivery["attemptedAt"].is_string(), "{delivery}");
    }
    Ok(())
}

//! A merchant tests an endpoint without waiting for an event.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use reqwest::Method;
use serde_json::{Value, json};
use testkit::Response;

use super::{Endpoint, ended, is_signed_with, summary};
use crate::support::{Merchant, Receiver, Reply, conflict, id, invalid, merchant, not_found, ok};

async fn test(merchant: &Merchant, endpoint: &str) -> Result<Response> {
    merchant.api.send(Method::POST, &format!("/v1/webhook_endpoints/{endpoint}/test"), None).await
}

#[tokio::test]
async fn a_test_goes_to_its_endpoint_alone_and_is_not_retried() -> Result<()> {
    let works = Arc::new(AtomicBool::new(true));
    let receiver = {
        let works = Arc::clone(&works);
        Receiver::start(move |_| Reply::status(if works.load(Ordering::Relaxed) { 200 } else { 500 })).await?
    };
    let merchant = merchant().await?;
    let endpoint = Endpoint::new(&merchant, &receiver, "/in", &["payment.expired"]).await?;
    let other = Endpoint::new(&merchant, &receiver, "/other", &[]).await?;

    let response = test(&merchant, &endpoint.id).await?;
    let sent = ok(&response);
    assert_eq!((&sent["object"], &sent["status"]), (&json!("webhook_delivery"), &json!("pending")));
    assert_eq!((&sent["eventType"], &sent["endpointId"]), (&json!("webhook_endpoint.test"), &json!(endpoint.id)));
    assert_eq!(summary(&ended(&merchant, &id(sent)?).await?), "1 succeeded 200");
    let requests = receiver.wait_for_requests("/in", 1).await?;
    assert!(is_signed_with(&requests[0], &[&endpoint.secret])?);
    let event: Value = serde_json::from_slice(&requests[0].body)?;
    assert_eq!((&event["type"], &event["data"]["object"]), (&json!("webhook_endpoint.test"), &endpoint.get().await?));
    let path = format!("/v1/events/{}", sent["eventId"].as_str().unwrap_or_default());
    assert_eq!(ok(&merchant.api.get(&path).await?)["data"], event["data"]);

    works.store(false, Ordering::Relaxed);
    let failed = ended(&merchant, &id(ok(&test(&merchant, &endpoint.id).await?))?).await?;
    assert_eq!(summary(&failed), "1 failed status 500");
    assert!(failed.get("nextAttemptAt").is_none(), "{failed}");
    endpoint.done(2).await?;
    other.done(0).await?;
    assert_eq!(receiver.count("/other"), 0);
    Ok(())
}

#[tokio::test]
async fn disabled_deleted_and_other_accounts_endpoints_are_not_tested() -> Result<()> {
    let receiver = Receiver::start(|_| Reply::ok()).await?;
    let (merchant, other) = (merchant().await?, merchant().await?);
    let endpoint = Endpoint::new(&merchant, &receiver, "/in", &[]).await?;
    not_found(&test(&other, &endpoint.id).await?);
    let body = json!({"enabledEvents": ["webhook_endpoint.test"]});
    invalid(&merchant.api.post(&endpoint.path(), body).await?, "enabledEvents[0]");
    endpoint.update(json!({"status": "disabled"})).await?;
    conflict(&test(&merchant, &endpoint.id).await?);
    endpoint.delete().await?;
    not_found(&test(&merchant, &endpoint.id).await?);
    assert_eq!(receiver.count("/in"), 0);
    Ok(())
}

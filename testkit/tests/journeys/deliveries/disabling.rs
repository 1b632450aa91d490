//! Endpoints that return 410 or fail for days are disabled, and the merchant's other endpoints receive an event about
//! it.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use anyhow::Result;
use serde_json::json;

use super::{Endpoint, ended, replay, summaries};
use crate::support::{Receiver, Reply, conflict, id, merchant, ok};

#[tokio::test]
async fn a_410_disables_an_endpoint_until_it_is_enabled_again() -> Result<()> {
    let back = Arc::new(AtomicBool::new(false));
    let receiver = {
        let back = Arc::clone(&back);
        Receiver::start(move |request| match request.path.as_str() {
            "/gone" if !back.load(Ordering::Relaxed) => Reply::status(410),
            _ => Reply::ok(),
        })
        .await?
    };
    let merchant = merchant().await?;
    let gone = Endpoint::new(&merchant, &receiver, "/gone", &[]).await?;
    let other = Endpoint::new(&merchant, &receiver, "/other", &["webhook_endpoint.disabled"]).await?;
    gone.pause().await?;
    for _ in 0..5 {
        merchant.customer().await?;
    }
    gone.resume().await?;

    let disabled = gone.wait_for_status("disabled").await?;
    assert_eq!(disabled["disabledReason"], "gone");
    let event = receiver.wait_for_requests("/other", 1).await?.remove(0).event();
    assert_eq!((&event["type"], &event["data"]["object"]), (&"webhook_endpoint.disabled".into(), &disabled));
    let mut deliveries = gone.done(5).await?;
    deliveries.sort_by_key(|delivery| delivery["attemptedAt"].is_null());
    let closed = "1 failed endpoint_disabled";
    assert_eq!(summaries(&deliveries), ["1 failed status 410", closed, closed, closed, closed]);
    assert!(deliveries.iter().all(|delivery| delivery.get("nextAttemptAt").is_none()));
    assert_eq!(receiver.count("/gone"), 1, "nothing is sent after a 410");
    conflict(&replay(&merchant, &deliveries[1]).await?);

    merchant.customer().await?;
    gone.done(5).await?;
    back.store(true, Ordering::Relaxed);
    gone.update(json!({"status": "enabled"})).await?;
    assert!(gone.get().await?.get("disabledReason").is_none());
    merchant.customer().await?;
    assert_eq!(summaries(&gone.done(6).await?)[5], "1 succeeded 200");
    let again = id(ok(&replay(&merchant, &deliveries[1]).await?))?;
    assert_eq!(ended(&merchant, &again).await?["status"], "succeeded");
    assert_eq!(receiver.count("/gone"), 3, "closed deliveries can be replayed after the endpoint is enabled");
    other.done(1).await?;
    Ok(())
}

#[tokio::test]
async fn days_of_failures_disable_an_endpoint_and_one_success_resets_them() -> Result<()> {
    let receiver = Receiver::start(|request| match (request.path.as_str(), request.nth) {
        ("/failing", _) | ("/works", 1..) => Reply::status(500),
        _ => Reply::ok(),
    })
    .await?;
    let merchant = merchant().await?;
    let failing = Endpoint::new(&merchant, &receiver, "/failing", &[]).await?;
    let works = Endpoint::new(&merchant, &receiver, "/works", &["customer.created"]).await?;
    let other = Endpoint::new(&merchant, &receiver, "/other", &["webhook_endpoint.disabled"]).await?;
    for endpoint in [&failing, &works] {
        endpoint.set("failing_since = now() - interval '6 days', last_failed_at = now() - interval '1 day'").await?;
    }
    merchant.customer().await?;
    let disabled = failing.wait_for_status("disabled").await?;
    assert_eq!(disabled["disabledReason"], "failing");
    assert_eq!(receiver.wait_for_requests("/other", 1).await?[0].event()["data"]["object"], disabled);
    works.wait_for(&["1 succeeded 200"]).await?;
    assert!(works.is("failing_since IS NULL").await?, "one success resets the failure period");

    // The retry scheduled before it was disabled is closed.
    failing.wait_for(&["1 failed status 500", "2 failed endpoint_disabled"]).await?;
    merchant.customer().await?;
    works.postpone_retry().await?;
    works.wait_for(&["1 succeeded 200", "1 failed status 500", "2 pending"]).await?;
    assert!(
        works.is("failing_since > now() - interval '1 hour' AND status = 'enabled'").await?,
        "a new failure period starts"
    );
    failing.done(2).await?;
    other.done(1).await?;
    Ok(())
}

//! Connections that are reset, refused, redirected, or closed between two requests.

use anyhow::Result;
use serde_json::json;

use super::{Endpoint, assert_same};
use crate::support::{Receiver, Reply, merchant};

#[tokio::test]
async fn a_request_on_a_reset_connection_is_repeated_only_by_the_schedule() -> Result<()> {
    let receiver = Receiver::start(|request| match request.nth {
        0 => Reply::Reset,
        _ => Reply::ok(),
    })
    .await?;
    let merchant = merchant().await?;
    let endpoint = Endpoint::new(&merchant, &receiver, "/resets", &[]).await?;
    merchant.customer().await?;
    endpoint.postpone_retry().await?;
    let deliveries = endpoint.wait_for(&["1 failed connect", "2 pending"]).await?;
    assert!(deliveries[0].get("responseBody").is_none(), "{}", deliveries[0]);
    assert_eq!(receiver.count("/resets"), 1, "the HTTP client must not repeat a request by itself");
    endpoint.retry_now().await?;
    endpoint.wait_for(&["1 failed connect", "2 succeeded 200"]).await?;
    assert_eq!(receiver.count("/resets"), 2);
    assert_same(&receiver.received("/resets"));
    Ok(())
}

#[tokio::test]
async fn redirects_are_failures_and_are_not_followed() -> Result<()> {
    let receiver = Receiver::start(|request| match (request.path.as_str(), request.nth) {
        ("/moved", 0) => Reply::with_header(302, "Location", "/target"),
        ("/moved", 1) => Reply::with_header(307, "Location", format!("http://{}/target", request.header("host"))),
        _ => Reply::ok(),
    })
    .await?;
    let merchant = merchant().await?;
    let endpoint = Endpoint::new(&merchant, &receiver, "/moved", &[]).await?;
    merchant.customer().await?;
    endpoint.postpone_retry().await?;
    endpoint.wait_for(&["1 failed status 302", "2 pending"]).await?;
    endpoint.retry_now().await?;
    endpoint.wait_for(&["1 failed status 302", "2 failed status 307", "3 pending"]).await?;
    endpoint.retry_now().await?;
    endpoint.wait_for(&["1 failed status 302", "2 failed status 307", "3 succeeded 200"]).await?;
    assert_eq!(receiver.count("/target"), 0);
    Ok(())
}

#[tokio::test]
async fn connections_are_reused_and_a_closed_one_loses_nothing() -> Result<()> {
    let receiver = Receiver::start(|request| match request.path.as_str() {
        "/closes" => Reply::Close,
        _ => Reply::ok(),
    })
    .await?;
    let merchant = merchant().await?;
    let closing = Endpoint::new(&merchant, &receiver, "/closes", &["customer.created"]).await?;
    for count in 1..=4 {
        merchant.customer().await?;
        closing.done(count).await?;
    }
    assert_eq!(receiver.connections(), 4);
    assert_eq!(receiver.count("/closes"), 4);
    closing.delete().await?;

    let keeping = Endpoint::new(&merchant, &receiver, "/keeps", &["customer.created"]).await?;
    for count in 1..=4 {
        merchant.customer().await?;
        keeping.done(count).await?;
    }
    let opened = receiver.connections() - 4;
    assert!(opened < 4, "{opened} connections for four requests");
    Ok(())
}

#[tokio::test]
async fn an_unreachable_endpoint_is_retried() -> Result<()> {
    let merchant = merchant().await?;
    let down = Receiver::start(|_| Reply::ok()).await?;
    let endpoint = Endpoint::new(&merchant, &down, "/in", &[]).await?;
    drop(down);
    merchant.customer().await?;
    endpoint.postpone_retry().await?;
    endpoint.wait_for(&["1 failed connect", "2 pending"]).await?;
    let up = Receiver::start(|_| Reply::ok()).await?;
    endpoint.update(json!({"url": up.url("/in")})).await?;
    endpoint.retry_now().await?;
    endpoint.wait_for(&["1 failed connect", "2 succeeded 200"]).await?;
    assert_eq!(up.count("/in"), 1);
    Ok(())
}

//! Connections that break, lead elsewhere, or are closed between two requests.

use anyhow::Result;
use serde_json::json;

use super::{Endpoint, assert_same};
use crate::support::{Receiver, Reply, merchant};

#[tokio::test]
async fn a_request_whose_connection_was_reset_is_repeated_by_the_schedule_alone() -> Result<()> {
    let receiver = Receiver::start(|request| match request.nth {
        0 => Reply::Reset,
        _ => Reply::ok(),
    })
    .await?;
    let merchant = merchant().await?;
    let endpoint = Endpoint::new(&merchant, &receiver, "/resets", &[]).await?;
    merchant.customer().await?;
    let deliveries = endpoint.tells(&["1 failed connect", "2 pending"]).await?;
    assert!(deliveries[0].get("responseBody").is_none(), "{}", deliveries[0]);
    assert_eq!(receiver.count("/resets"), 1, "no client of ours repeats a request by itself");
    endpoint.retry_now().await?;
    endpoint.tells(&["1 failed connect", "2 succeeded 200"]).await?;
    assert_eq!(receiver.count("/resets"), 2);
    assert_same(&receiver.heard("/resets"));
    Ok(())
}

#[tokio::test]
async fn a_redirect_is_a_failure_and_is_not_followed() -> Result<()> {
    let receiver = Receiver::start(|request| match (request.path.as_str(), request.nth) {
        ("/moved", 0) => Reply::with_header(302, "Location", "/target"),
        ("/moved", 1) => Reply::with_header(307, "Location", format!("http://{}/target", request.header("host"))),
        _ => Reply::ok(),
    })
    .await?;
    let merchant = merchant().await?;
    let endpoint = Endpoint::new(&merchant, &receiver, "/moved", &[]).await?;
    merchant.customer().await?;
    endpoint.tells(&["1 failed status 302", "2 pending"]).await?;
    endpoint.retry_now().await?;
    endpoint.tells(&["1 failed status 302", "2 failed status 307", "3 pending"]).await?;
    endpoint.retry_now().await?;
    endpoint.tells(&["1 failed status 302", "2 failed status 307", "3 succeeded 200"]).await?;
    assert_eq!(receiver.count("/target"), 0);
    Ok(())
}

#[tokio::test]
async fn connections_are_kept_and_one_closed_between_two_deliveries_loses_nothing() -> Result<()> {
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
    let made = receiver.connections() - 4;
    assert!(made < 4, "{made} connections for four requests");
    Ok(())
}

#[tokio::test]
async fn an_endpoint_that_is_down_is_tried_again() -> Result<()> {
    let merchant = merchant().await?;
    let down = Receiver::start(|_| Reply::ok()).await?;
    let endpoint = Endpoint::new(&merchant, &down, "/in", &[]).await?;
    drop(down);
    merchant.customer().await?;
    endpoint.tells(&["1 failed connect", "2 pending"]).await?;
    let up = Receiver::start(|_| Reply::ok()).await?;
    endpoint.update(json!({"url": up.url("/in")})).await?;
    endpoint.retry_now().await?;
    endpoint.tells(&["1 failed connect", "2 succeeded 200"]).await?;
    assert_eq!(up.count("/in"), 1);
    Ok(())
}

//! Failed deliveries are retried on a schedule.

use anyhow::Result;

use super::{Endpoint, assert_same, is_signed_with};
use crate::support::{Receiver, Reply, merchant};

#[tokio::test]
async fn failed_deliveries_are_retried_with_the_same_bytes() -> Result<()> {
    let receiver = Receiver::start(|request| match request.nth {
        0 => Reply::status(500),
        _ => Reply::ok().held(),
    })
    .await?;
    let merchant = merchant().await?;
    let endpoint = Endpoint::new(&merchant, &receiver, "/in", &[]).await?;
    merchant.customer().await?;

    // The retry happens on its schedule. While the second attempt is in flight, it is still pending.
    let requests = receiver.wait_for_requests("/in", 2).await?;
    let deliveries = endpoint.wait_for(&["1 failed status 500", "2 pending"]).await?;
    let (failed, pending) = (&deliveries[0], &deliveries[1]);
    assert_eq!(failed["responseBody"], "status 500");
    assert_eq!(failed["nextAttemptAt"], pending["nextAttemptAt"], "the failed attempt shows when the next one is due");
    assert!(failed["nextAttemptAt"].is_string() && pending.get("attemptedAt").is_none(), "{deliveries:#?}");
    assert_same(&requests);
    for request in &requests {
        assert!(is_signed_with(request, &[&endpoint.secret])?);
    }
    let [first, second] = [0, 1].map(|i| requests[i].header("webhook-timestamp").parse::<u64>());
    assert!(first? < second?, "each attempt has its own timestamp");

    receiver.release();
    let deliveries = endpoint.wait_for(&["1 failed status 500", "2 succeeded 200"]).await?;
    let (failed, succeeded) = (&deliveries[0], &deliveries[1]);
    assert_eq!(succeeded["id"], pending["id"]);
    assert_eq!(succeeded["eventId"], failed["eventId"]);
    assert!(succeeded["attemptedAt"].as_str() >= failed["nextAttemptAt"].as_str(), "{deliveries:#?}");
    assert!(succeeded.get("nextAttemptAt").is_none());
    assert_eq!(receiver.count("/in"), 2);
    Ok(())
}

#[tokio::test]
async fn there_are_at_most_ten_attempts() -> Result<()> {
    let receiver = Receiver::start(|_| Reply::status(503)).await?;
    let merchant = merchant().await?;
    let endpoint = Endpoint::new(&merchant, &receiver, "/in", &[]).await?;
    merchant.customer().await?;
    for attempt in 1..=10 {
        receiver.wait_for_requests("/in", attempt).await?;
        // Each attempt but the last has a pending successor once it is recorded.
        if attempt < 10 {
            let mut expected: Vec<_> = (1..=attempt).map(|attempt| format!("{attempt} failed status 503")).collect();
            expected.push(format!("{} pending", attempt + 1));
            endpoint.wait_for(&expected.iter().map(String::as_str).collect::<Vec<_>>()).await?;
            endpoint.retry_now().await?;
        }
    }
    let deliveries = endpoint.done(10).await?;
    assert!(deliveries[..9].iter().all(|delivery| delivery["nextAttemptAt"].is_string()));
    assert!(deliveries[9].get("nextAttemptAt").is_none());
    assert_same(&receiver.received("/in"));
    Ok(())
}

//! A slow endpoint does not delay deliveries to other endpoints.

use anyhow::Result;

use super::{Endpoint, deliveries};
use crate::support::{Receiver, Reply, concurrently, merchant};

const EVENTS: usize = 300;
/// If the hanging endpoint occupied the worker, not even so many would arrive before its attempt ends.
const EARLY: usize = 20;

#[tokio::test]
async fn a_hanging_endpoint_does_not_delay_others() -> Result<()> {
    let receiver = Receiver::start(|request| match request.path.as_str() {
        "/hangs" => Reply::Silence,
        _ => Reply::ok(),
    })
    .await?;
    let merchant = merchant().await?;
    let hanging = Endpoint::new(&merchant, &receiver, "/hangs", &[]).await?;
    let healthy = Endpoint::new(&merchant, &receiver, "/healthy", &[]).await?;
    hanging.pause().await?;
    healthy.pause().await?;
    concurrently(EVENTS, async |_| merchant.customer().await).await?;
    hanging.resume().await?;
    receiver.wait_for_requests("/hangs", 1).await?;
    healthy.resume().await?;
    receiver.wait_for_requests("/healthy", EARLY).await?;
    for ended in ["failed", "succeeded"] {
        let ended = deliveries(&merchant, &format!("endpointId={}&status={ended}", hanging.id)).await?;
        assert_eq!(ended.len(), 0, "deliveries to one endpoint must arrive before an attempt at the hanging one ends");
    }
    receiver.wait_for_requests("/healthy", EVENTS).await?;
    assert_eq!(deliveries(&merchant, &format!("endpointId={}", hanging.id)).await?.len(), EVENTS);
    healthy.done(EVENTS).await?;
    // Otherwise its backlog would occupy the workers after this test.
    hanging.delete().await
}

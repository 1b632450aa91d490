//! Endpoints do not wait for each other.

use anyhow::Result;

use super::{Endpoint, deliveries};
use crate::support::{Receiver, Reply, merchant, together};

const EVENTS: usize = 300;

#[tokio::test]
async fn an_endpoint_that_hangs_holds_up_no_other() -> Result<()> {
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
    together(EVENTS, async |_| merchant.customer().await).await?;
    hanging.resume().await?;
    receiver.hears("/hangs", 1).await?;
    healthy.resume().await?;
    receiver.hears("/healthy", EVENTS).await?;
    for ended in ["failed", "succeeded"] {
        let ended = deliveries(&merchant, &format!("endpointId={}&status={ended}", hanging.id)).await?;
        assert_eq!(ended.len(), 0, "all went to one before any attempt at the other had ended");
    }
    assert_eq!(deliveries(&merchant, &format!("endpointId={}", hanging.id)).await?.len(), EVENTS);
    healthy.done(EVENTS).await?;
    // Its backlog would go on long after this test.
    hanging.delete().await
}

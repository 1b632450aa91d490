//! Limits on the duration and size of responses.

use anyhow::Result;

use super::Endpoint;
use crate::support::{FLOOD, Receiver, Reply, eventually, merchant};

#[tokio::test]
async fn a_dripping_response_times_out_whatever_its_status() -> Result<()> {
    let receiver = Receiver::start(|_| Reply::Drip).await?;
    let merchant = merchant().await?;
    let endpoint = Endpoint::new(&merchant, &receiver, "/drips", &[]).await?;
    merchant.customer().await?;
    let failed = eventually("the attempt to end", async || {
        let first = endpoint.deliveries().await?.into_iter().next();
        Ok(first.filter(|delivery| delivery["status"] != "pending"))
    })
    .await?;
    assert_eq!((&failed["status"], &failed["failureReason"]), (&"failed".into(), &"timeout".into()), "{failed}");
    assert!(failed["nextAttemptAt"].is_string(), "{failed}");
    Ok(())
}

#[tokio::test]
async fn only_the_start_of_a_huge_response_is_read() -> Result<()> {
    let receiver = Receiver::start(|_| Reply::Flood).await?;
    let merchant = merchant().await?;
    let endpoint = Endpoint::new(&merchant, &receiver, "/floods", &[]).await?;
    merchant.customer().await?;
    let deliveries = endpoint.wait_for(&["1 succeeded 200"]).await?;
    assert_eq!(deliveries[0]["responseBody"].as_str().map(str::len), Some(4096));
    let written = eventually("the end of the response", async || Ok(receiver.floods().first().copied())).await?;
    // Socket buffers take some bytes that the client never reads.
    assert!(written < FLOOD / 4, "{written} bytes were written");
    Ok(())
}

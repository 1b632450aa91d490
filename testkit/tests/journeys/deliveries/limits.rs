//! Answers that are too long, in time and in bytes.

use anyhow::Result;

use super::Endpoint;
use crate::support::{FLOOD, Receiver, Reply, eventually, merchant};

#[tokio::test]
async fn an_answer_that_drips_is_no_answer_whatever_its_status() -> Result<()> {
    let receiver = Receiver::start(|_| Reply::Drip).await?;
    let merchant = merchant().await?;
    let endpoint = Endpoint::new(&merchant, &receiver, "/drips", &[]).await?;
    merchant.customer().await?;
    let failed = eventually("an end of the attempt", async || {
        let first = endpoint.deliveries().await?.into_iter().next();
        Ok(first.filter(|delivery| delivery["status"] != "pending"))
    })
    .await?;
    assert_eq!((&failed["status"], &failed["failureReason"]), (&"failed".into(), &"timeout".into()), "{failed}");
    assert!(failed["nextAttemptAt"].is_string(), "{failed}");
    Ok(())
}

#[tokio::test]
async fn of_a_flood_only_the_beginning_is_taken() -> Result<()> {
    let receiver = Receiver::start(|_| Reply::Flood).await?;
    let merchant = merchant().await?;
    let endpoint = Endpoint::new(&merchant, &receiver, "/floods", &[]).await?;
    merchant.customer().await?;
    let deliveries = endpoint.tells(&["1 succeeded 200"]).await?;
    assert_eq!(deliveries[0]["responseBody"].as_str().map(str::len), Some(4096));
    let taken = eventually("an end of the flood", async || Ok(receiver.floods().first().copied())).await?;
    // What the operating systems had in their buffers is no business of ours.
    assert!(taken < FLOOD / 4, "{taken} bytes were taken");
    Ok(())
}

//! Housekeeping, run once a second by every process: recovers abandoned transactions, ends expired challenges, and
//! deletes expired data.

mod store;

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::processing::Processor;

const INTERVAL: Duration = Duration::from_secs(1);

/// Runs until `stop`. An error is logged, and the next round retries.
pub async fn run(processor: Processor, stop: CancellationToken) {
    loop {
        if let Err(error) = round(&processor).await {
            tracing::error!(%error, "a round of the sweep failed; the next one will retry");
        }
        tokio::select! {
            () = tokio::time::sleep(INTERVAL) => {}
            () = stop.cancelled() => return,
        }
    }
}

async fn round(processor: &Processor) -> Result<(), sqlx::Error> {
    processor.recover().await?;
    let deleted = store::delete_expired(&processor.db).await?;
    if deleted > 0 {
        tracing::debug!(rows = deleted, "deleted expired rows");
    }
    let unfinished = store::unfinished(&processor.db).await?;
    metrics::gauge!("gateway_transactions_unfinished").set(unfinished as f64);
    Ok(())
}

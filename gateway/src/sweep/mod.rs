//! Housekeeping, run once a second by every process: recovers abandoned transactions, ends expired challenges, and
//! deletes expired data.

mod store;

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::transactions::recover;

const INTERVAL: Duration = Duration::from_secs(1);

/// Runs until `stop`. An error is logged, and the next round retries.
pub async fn run(app: App, stop: CancellationToken) {
    loop {
        if let Err(error) = round(&app).await {
            tracing::error!(%error, "a round of the sweep failed; the next one will retry");
        }
        tokio::select! {
            () = tokio::time::sleep(INTERVAL) => {}
            () = stop.cancelled() => return,
        }
    }
}

/// One round.
///
/// # Errors
/// Database errors.
pub async fn round(app: &App) -> Result<(), sqlx::Error> {
    recover::recover(app).await?;
    let deleted = store::delete_expired(&app.db).await?;
    if deleted > 0 {
        tracing::debug!(rows = deleted, "deleted expired rows");
    }
    let unfinished = store::unfinished(&app.db).await?;
    metrics::gauge!("gateway_transactions_unfinished").set(unfinished as f64);
    Ok(())
}

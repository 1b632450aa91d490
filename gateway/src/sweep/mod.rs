//! What is done without being asked, once a second, by every process: left-behind transactions, expired challenges, and the
//! deletion of what must not be kept.

mod store;

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::transactions::recover;

const EVERY: Duration = Duration::from_secs(1);

/// Goes on until told to stop. A failure is logged, and the next round tries again.
pub async fn run(app: App, stop: CancellationToken) {
    loop {
        if let Err(error) = round(&app).await {
            tracing::error!(%error, "a round of the sweep failed; the next one tries again");
        }
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            () = stop.cancelled() => return,
        }
    }
}

/// Everything that is due now.
///
/// # Errors
/// Only the database's.
pub async fn round(app: &App) -> Result<(), sqlx::Error> {
    recover::recover(app).await?;
    let forgotten = store::forget(&app.db).await?;
    if forgotten > 0 {
        tracing::debug!(rows = forgotten, "forgot what has expired");
    }
    let unfinished = store::unfinished(&app.db).await?;
    metrics::gauge!("gateway_transactions_unfinished").set(unfinished as f64);
    Ok(())
}

//! Runs the portal process.

use anyhow::Result;
use foundation::telemetry;

#[tokio::main]
async fn main() -> Result<()> {
    telemetry::init_logs();
    portal::run(telemetry::init_metrics()?, telemetry::shutdown_signal()).await
}

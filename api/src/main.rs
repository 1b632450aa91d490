//! Runs the API process.

use anyhow::Result;
use foundation::telemetry;

#[tokio::main]
async fn main() -> Result<()> {
    telemetry::init_logs();
    api::run(telemetry::init_metrics()?, telemetry::shutdown_signal()).await
}

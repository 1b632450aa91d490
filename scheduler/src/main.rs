//! Runs the scheduler process.

use anyhow::Result;
use foundation::telemetry;

#[tokio::main]
async fn main() -> Result<()> {
    telemetry::init_logs();
    scheduler::run(telemetry::init_metrics()?, telemetry::shutdown_signal()).await
}

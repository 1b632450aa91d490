//! The card gateway. `gateway --help` says what it does.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    match gateway::commands::run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gateway: {error:#}");
            ExitCode::FAILURE
        }
    }
}

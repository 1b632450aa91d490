//! The card gateway. `gateway --help` says what it does.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    match gateway::commands::run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            common::console::complain(format_args!("gateway: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

//! The card gateway. See `gateway --help`.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    match gateway::commands::run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            foundation::console::print_error(format_args!("gateway: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

//! `chaos`: a whole system under load and faults, and a checker. Build it with the processes beside it: `./dev chaos`.

use std::{env, process::ExitCode};

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match testkit::chaos::command(&arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("chaos: {error:#}");
            ExitCode::FAILURE
        }
    }
}

//! `sandbox`: the whole system on one machine, for evaluation and development.

use std::{env, process::ExitCode};

use testkit::sandbox;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match sandbox::command(&arguments).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("sandbox: {error:#}");
            ExitCode::FAILURE
        }
    }
}

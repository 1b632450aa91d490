//! `bench`: the benchmarks of the whole system. Build it for release, with the processes beside it: `./dev bench`.

use std::{env, process::ExitCode};

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match testkit::bench::command(&arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

//! `run_tests`: runs the test executables that cargo has built. Used by `./dev test`.

use std::{env, process::ExitCode};

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match testkit::test_run::command(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("run_tests: {error:#}");
            ExitCode::FAILURE
        }
    }
}

//! `chaos`: runs a whole system under load and faults, then checks it. Needs a build of all binaries: `./dev chaos`.

use std::{env, process::ExitCode, thread};

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    // The log folder is named after this thread, and scenes run side by side, so each gets its own name.
    let name =
        if arguments.first().is_some_and(|first| first == "scene") { arguments.join("-") } else { "chaos".into() };
    let run = thread::Builder::new().name(name).spawn(move || run(&arguments));
    run.ok().and_then(|run| run.join().ok()).unwrap_or(ExitCode::FAILURE)
}

fn run(arguments: &[String]) -> ExitCode {
    let runtime = tokio::runtime::Runtime::new();
    match runtime.map_err(anyhow::Error::from).and_then(|runtime| runtime.block_on(testkit::chaos::command(arguments)))
    {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("chaos: {error:#}");
            ExitCode::FAILURE
        }
    }
}

//! `chaos`: a whole system under load and faults, and a checker. Build it with the processes beside it: `./dev chaos`.

use std::{env, process::ExitCode, thread};

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    // The logs of a system lie in a folder that is named after the thread that started it, and scenes are played side by side.
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

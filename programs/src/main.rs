//! Runs the program by whose name it is started.

fn main() -> anyhow::Result<std::process::ExitCode> {
    programs::start()
}

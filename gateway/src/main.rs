//! Runs the card gateway. See `gateway --help`.

fn main() -> std::process::ExitCode {
    gateway::start()
}

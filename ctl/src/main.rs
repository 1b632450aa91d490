//! Runs `ctl`.

fn main() -> std::process::ExitCode {
    ctl::start()
}

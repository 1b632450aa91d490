//! Runs the worker process.

fn main() -> anyhow::Result<()> {
    worker::start()
}

//! Runs the scheduler process.

fn main() -> anyhow::Result<()> {
    scheduler::start()
}

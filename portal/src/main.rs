//! Runs the portal process.

fn main() -> anyhow::Result<()> {
    portal::start()
}

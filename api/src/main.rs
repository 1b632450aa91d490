//! Runs the API process.

fn main() -> anyhow::Result<()> {
    api::start()
}

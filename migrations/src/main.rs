//! Runs `migrate`.

fn main() -> anyhow::Result<()> {
    migrations::start()
}

//! The schema, as forward-only migrations that are built into the binary.

use anyhow::Result;
use sqlx::migrate::Migrator;

/// The schema's name and the table that notes what was applied stand in `sqlx.toml`.
static MIGRATOR: Migrator = sqlx::migrate!("./migrations");

/// Brings the schema `gateway` at `database_url` up.
///
/// # Errors
/// As [`migrations::apply`].
pub async fn run(database_url: &str) -> Result<()> {
    migrations::apply(&MIGRATOR, database_url).await
}

//! The schema, as forward-only migrations that are built into the binary.

use anyhow::{Context, Result};
use sqlx::{Connection, PgConnection, migrate::Migrator};

/// The schema's name and the table that notes what was applied stand in `sqlx.toml`.
static MIGRATOR: Migrator = sqlx::migrate!("./migrations");

/// Brings the schema `gateway` at `database_url` up. Safe to run from several processes at once: each waits for the lock that
/// sqlx takes, then finds the work done.
///
/// # Errors
/// When the database cannot be reached, a migration fails, or one that was applied has been changed since.
pub async fn run(database_url: &str) -> Result<()> {
    let mut connection = PgConnection::connect(database_url).await.context("cannot connect to the database")?;
    MIGRATOR.run(&mut connection).await.context("cannot migrate the database")?;
    connection.close().await.context("cannot close the connection after migrating")
}

//! The schema, as forward-only migrations that are embedded in the binary: the `.sql` files in `migrations/`.
//!
//! There are no down migrations; a later migration corrects a mistake.

mod apply;
mod program;
pub mod roles;

use std::collections::BTreeMap;

use anyhow::Result;
use sqlx::{PgPool, migrate::Migrator};

pub use apply::apply;
pub use program::start;

static MIGRATOR: Migrator = sqlx::migrate!("./migrations");

/// Migrates the database at `database_url` to the newest schema.
///
/// # Errors
/// As [`apply`].
pub async fn run(database_url: &str) -> Result<()> {
    apply(&MIGRATOR, database_url).await
}

/// The checksum of each embedded migration.
pub fn checksums() -> impl Iterator<Item = &'static [u8]> {
    MIGRATOR.iter().map(|migration| &*migration.checksum)
}

/// The versions that differ between a database and the embedded migrations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MigrationStatus {
    /// Embedded and not applied.
    pub missing: Vec<i64>,
    /// Applied and not embedded: the database has a newer version.
    pub unknown: Vec<i64>,
    /// Applied with a text that differs from the embedded one.
    pub changed: Vec<i64>,
    /// Started and not finished.
    pub unfinished: Vec<i64>,
}

/// Compares the database with the embedded migrations without changing it.
///
/// # Errors
/// If the database cannot be queried, or was never migrated.
pub async fn status(db: &PgPool) -> Result<MigrationStatus> {
    let applied: Vec<(i64, Vec<u8>, bool)> =
        sqlx::query_as("SELECT version, checksum, success FROM _sqlx_migrations ORDER BY version")
            .fetch_all(db)
            .await?;
    let embedded: BTreeMap<_, _> =
        MIGRATOR.iter().map(|migration| (migration.version, migration.checksum.to_vec())).collect();
    let is_applied = |version: &i64| applied.iter().any(|(applied, ..)| applied == version);
    let mut status = MigrationStatus {
        missing: embedded.keys().filter(|version| !is_applied(version)).copied().collect(),
        ..MigrationStatus::default()
    };
    for (version, checksum, success) in applied {
        let list = match embedded.get(&version) {
            _ if !success => &mut status.unfinished,
            None => &mut status.unknown,
            Some(expected) if *expected != checksum => &mut status.changed,
            Some(_) => continue,
        };
        list.push(version);
    }
    Ok(status)
}

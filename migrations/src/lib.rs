//! The schema, as forward-only migrations that are built into the binary.
//!
//! Every `.sql` file beside this crate's manifest in `migrations/` is one of them. This crate refuses to undo:
//! a mistake is mended by the next migration.

mod apply;
pub mod roles;

use std::collections::BTreeMap;

use anyhow::Result;
use sqlx::{PgPool, migrate::Migrator};

pub use apply::apply;

static MIGRATOR: Migrator = sqlx::migrate!("./migrations");

/// Brings the database at `database_url` to the newest schema.
///
/// # Errors
/// As [`apply`].
pub async fn run(database_url: &str) -> Result<()> {
    apply(&MIGRATOR, database_url).await
}

/// How a database stands beside the migrations that are built in; each by its version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Built in and not applied.
    pub missing: Vec<i64>,
    /// Applied and not built in: the database is of a newer version.
    pub unknown: Vec<i64>,
    /// Applied with another text than is built in.
    pub changed: Vec<i64>,
    /// Begun, and never finished.
    pub unfinished: Vec<i64>,
}

/// Compares them, and changes nothing.
///
/// # Errors
/// When the database cannot be asked, or has never been migrated.
pub async fn standing(db: &PgPool) -> Result<Standing> {
    let applied: Vec<(i64, Vec<u8>, bool)> =
        sqlx::query_as("SELECT version, checksum, success FROM _sqlx_migrations ORDER BY version")
            .fetch_all(db)
            .await?;
    let built_in: BTreeMap<_, _> = MIGRATOR.iter().map(|one| (one.version, one.checksum.to_vec())).collect();
    let mut standing = Standing {
        missing: built_in
            .keys()
            .filter(|version| !applied.iter().any(|(known, ..)| known == *version))
            .copied()
            .collect(),
        ..Standing::default()
    };
    for (version, checksum, success) in applied {
        let list = match built_in.get(&version) {
            _ if !success => &mut standing.unfinished,
            None => &mut standing.unknown,
            Some(known) if *known != checksum => &mut standing.changed,
            Some(_) => continue,
        };
        list.push(version);
    }
    Ok(standing)
}

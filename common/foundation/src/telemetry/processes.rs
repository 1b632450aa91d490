//! The running processes and the offsets of their machines' clocks: each process updates its own row every few seconds.

use sqlx::{PgConnection, PgPool};

use crate::clock::Clock;
use crate::error::Result;

/// This process, as it identifies itself.
#[derive(Clone, Debug)]
pub(super) struct Process {
    kind: &'static str,
    name: String,
}

impl Process {
    /// `kind` is `api`, `worker` or `scheduler`.
    pub(super) fn this(kind: &'static str) -> Self {
        let machine =
            std::env::var("HOSTNAME").ok().or_else(|| std::fs::read_to_string("/proc/sys/kernel/hostname").ok());
        let machine = machine.as_deref().map_or("this machine", str::trim);
        Self { kind, name: format!("{kind} on {machine}, process {}", std::process::id()) }
    }

    /// Updates the row of this process, and deletes rows that have not been updated for an hour.
    pub(super) async fn report(&self, db: &mut PgConnection, clock: &Clock) -> sqlx::Result<()> {
        sqlx::query!(
            "WITH ended AS (
                 DELETE FROM processes WHERE name = ANY (ARRAY(
                     SELECT name FROM processes WHERE seen_at < (SELECT clock_timestamp() - interval '1 hour') AND name <> $1
                     ORDER BY seen_at LIMIT 100 FOR NO KEY UPDATE SKIP LOCKED)))
             INSERT INTO processes (name, kind, clock_ahead_seconds, seen_at) VALUES ($1, $2, $3, clock_timestamp())
             ON CONFLICT (name) DO UPDATE SET clock_ahead_seconds = $3, seen_at = clock_timestamp()",
            self.name,
            self.kind,
            clock.ahead_seconds(),
        )
        .execute(db)
        .await?;
        Ok(())
    }
}

/// A process that reported within the last half minute.
#[derive(Debug)]
pub struct RunningProcess {
    /// Kind, machine and process id.
    pub name: String,
    /// By how many seconds its machine's clock is ahead of the database's.
    pub clock_ahead_seconds: Option<f64>,
}

/// The running processes, ordered by name.
///
/// # Errors
/// Database errors only.
pub async fn running_processes(db: &PgPool) -> Result<Vec<RunningProcess>> {
    let rows = sqlx::query_as!(
        RunningProcess,
        "SELECT name, clock_ahead_seconds FROM processes
         WHERE seen_at > (SELECT clock_timestamp() - interval '30 seconds') ORDER BY name",
    );
    Ok(rows.fetch_all(db).await?)
}

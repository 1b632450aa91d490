//! Faults of Postgres.

use anyhow::{Context, Result};
use sqlx::{Connection, PgConnection};

use crate::{
    Postgres,
    chaos::system::System,
    proxy::{Mode, Proxy},
};

/// More than `max_connections` of any test Postgres.
const MAX_CONNECTIONS: usize = 2000;
/// The SQLSTATE `too_many_connections`.
const TOO_MANY_CONNECTIONS: &str = "53300";

pub(super) fn server(system: &mut System) -> Result<&mut Postgres> {
    system.cluster.postgres.as_mut().context("the system has no Postgres of its own")
}

pub(super) fn set_mode(system: &System, mode: Mode) {
    system.proxies.postgres.iter().for_each(|proxy: &Proxy| proxy.set_mode(mode));
}

/// Takes all connections and makes the processes reconnect. Returns false if it must be retried.
pub(super) async fn exhaust_connections(system: &System, held: &mut Vec<PgConnection>) -> bool {
    let url = system.cluster.database_url();
    set_mode(system, Mode::Cut);
    let mut refused = false;
    while held.len() < MAX_CONNECTIONS {
        match PgConnection::connect(url).await {
            Ok(connection) => held.push(connection),
            Err(error) => {
                let code = error.as_database_error().and_then(|error| error.code());
                refused = code.as_deref() == Some(TOO_MANY_CONNECTIONS);
                break;
            }
        }
    }
    set_mode(system, Mode::Pass);
    if !refused {
        // Postgres was unavailable for another reason, which is not this fault.
        held.clear();
    }
    refused
}

/// Returns false if it must be retried.
pub(super) fn fill_disk(system: &mut System) -> Result<bool> {
    // Postgres cannot start on a full disk, so it must be running.
    let runs = server(system)?.is_running()?;
    let Some(disk) = system.disk.as_ref().filter(|_| runs) else { return Ok(false) };
    disk.fill()?;
    Ok(true)
}

pub(super) async fn free_disk(system: &mut System) -> Result<()> {
    if let Some(disk) = &system.disk {
        disk.free()?;
    }
    let server = server(system)?;
    if server.is_running()? { Ok(()) } else { server.restart().await }
}

/// Restarts Postgres, unless the disk is full: then that happens when the disk has space again.
pub(super) async fn restart(system: &mut System) -> Result<()> {
    if system.disk.as_ref().is_some_and(|disk| disk.is_full()) { Ok(()) } else { server(system)?.restart().await }
}

//! What `doctor` says of what is around our tables: the machines that processes run on, and the providers.

use sqlx::PgPool;

use super::doctor::{Finding, Grade, LOOKED_AT, NAMED};
use crate::clock::CLOCK_TOLERANCE;
use crate::error::Result;
use crate::operations::{self, Breaker};
use crate::telemetry::{RunningProcess, running_processes};

/// Each process reports how far its machine's clock is off.
pub(super) async fn process_clocks(db: &PgPool) -> Result<Finding> {
    let processes = running_processes(db).await?;
    let tolerance = CLOCK_TOLERANCE.as_secs_f64();
    let off = |process: &&RunningProcess| process.clock_ahead_seconds.is_some_and(|ahead| ahead.abs() > tolerance);
    let named: Vec<_> = processes
        .iter()
        .filter(off)
        .map(|process| format!("{} ({:+.1} s)", process.name, process.clock_ahead_seconds.unwrap_or(0.0)))
        .collect();
    let check = "clocks of processes";
    if named.is_empty() {
        return Ok(Finding::ok(check, format!("{} processes run, and none is off", processes.len())));
    }
    let says = format!("{} of {} processes are off: {}", named.len(), processes.len(), named.join("; "));
    let advice = "set these machines' clocks by NTP: until then these processes start no work that moves money";
    Ok(Finding::of(check, Grade::Bad, says, advice))
}

/// Provider accounts that process nothing.
pub(super) async fn providers(db: &PgPool) -> Result<Finding> {
    let open = operations::breakers(db, LOOKED_AT).await?;
    let check = "providers";
    if open.is_empty() {
        return Ok(Finding::ok(check, "none is known to process nothing"));
    }
    let one = |breaker: &Breaker| {
        let Breaker { account_id, seconds, reason, .. } = breaker;
        format!("that of {account_id} for {seconds:.0} s ({reason})")
    };
    let named: Vec<_> = open.iter().take(NAMED).map(one).collect();
    let says = format!("{} provider accounts process nothing: {}", open.len(), named.join(", "));
    Ok(Finding::of(
        check,
        Grade::Bad,
        says,
        "docs/runbooks/provider-outage.md: what is due waits and is sent afterwards",
    ))
}

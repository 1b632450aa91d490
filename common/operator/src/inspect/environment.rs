//! Checks of `doctor` outside our tables: the machines that processes run on, and the providers.

use sqlx::PgPool;

use super::finding::{Finding, MAX_NAMED, MAX_ROWS, Severity};
use domain::charges::{self, Breaker};
use foundation::clock::CLOCK_TOLERANCE;
use foundation::error::Result;
use foundation::telemetry::{RunningProcess, running_processes};

/// Every process reports the offset of its machine's clock.
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
        return Ok(Finding::ok(check, format!("{} processes are running; no clock is off", processes.len())));
    }
    let message = format!("{} of {} clocks are off: {}", named.len(), processes.len(), named.join("; "));
    let advice =
        "synchronize these machines' clocks by NTP; until then their processes start no operation that moves money";
    Ok(Finding::of(check, Severity::Bad, message, advice))
}

/// Provider accounts whose circuit breaker is open.
pub(super) async fn providers(db: &PgPool) -> Result<Finding> {
    let open = charges::breakers(db, MAX_ROWS).await?;
    let check = "providers";
    if open.is_empty() {
        return Ok(Finding::ok(check, "no circuit breaker is open"));
    }
    let describe = |breaker: &Breaker| {
        let Breaker { account_id, seconds, reason, .. } = breaker;
        format!("one of {account_id} for {seconds:.0} s ({reason})")
    };
    let named: Vec<_> = open.iter().take(MAX_NAMED).map(describe).collect();
    let message = format!("{} provider accounts process no requests: {}", open.len(), named.join(", "));
    Ok(Finding::of(
        check,
        Severity::Bad,
        message,
        "docs/runbooks/provider-outage.md: due operations wait and are sent afterwards",
    ))
}

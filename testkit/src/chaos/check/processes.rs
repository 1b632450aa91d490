//! The behavior of the processes, independent of payments.

use super::finding::Finding;
use crate::chaos::{evidence::Evidence, fault_log::Window};

/// The time to recover after a fault, in milliseconds.
const RECOVERY_MS: i64 = 10_000;
/// The number of characters printed of a response.
const PRINTED_CHARACTERS: usize = 160;
/// The allowed requests per second of an account, from all workers together, to a provider that rejects everything: one
/// for a waiting client, and an occasional probe.
const MAX_REJECTED_PER_SECOND: f64 = 1.5;

pub(super) const WRONG_CLOCKS: &str = "a process with a wrong clock reports it and is not ready";
pub(super) const REJECTED_REQUESTS: &str = "a provider that rejects everything receives few requests";

/// Every 500 was returned during a fault that explains it, or shortly afterwards.
pub(super) fn internal_errors_are_explained(evidence: &Evidence) -> Finding {
    let mut finding = Finding::new("every 500 is explained by a fault");
    for entry in evidence.requests.iter().filter(|entry| entry.status.is_some()) {
        let during =
            |window: &&Window| window.from <= entry.ended && entry.sent <= window.to.saturating_add(RECOVERY_MS);
        let fault = evidence.windows.iter().find(|window| window.fault.explains_a_500() && during(window));
        finding.check(entry.status != Some(500) || fault.is_some(), || {
            let response: String = entry.response.chars().take(PRINTED_CHARACTERS).collect();
            format!("{} at {}: {response}", entry.request, entry.sent)
        });
    }
    finding
}

/// Postgres did not abort any of our transactions because of a deadlock.
pub(super) fn no_deadlocks(evidence: &Evidence) -> Finding {
    let mut finding = Finding::new("Postgres reports no deadlock");
    finding.check(evidence.deadlocks == 0, || format!("{} deadlocks", evidence.deadlocks));
    finding
}

/// No connection returned to its pool inside a transaction: later writes on it would be acknowledged and lost.
pub(super) fn no_nested_transactions(evidence: &Evidence) -> Finding {
    let mut finding = Finding::new("no connection returns to its pool inside a transaction");
    let count = evidence.nested_transactions;
    finding.check(count == 0, || format!("{count} transactions were started inside another one"));
    finding
}

/// A process whose clock is off by more than 2 s is not ready and reports the reason.
pub(super) fn wrong_clocks_are_reported(evidence: &Evidence) -> Finding {
    let mut finding = Finding::new(WRONG_CLOCKS);
    finding.checked = evidence.clock_checks;
    finding.violations.clone_from(&evidence.ready_with_wrong_clock);
    finding
}

/// A provider that rejects everything receives few requests.
pub(super) fn few_rejected_requests(evidence: &Evidence) -> Finding {
    let mut finding = Finding::new(REJECTED_REQUESTS);
    for rejected in &evidence.rejected_requests {
        let seconds = rejected.milliseconds as f64 / 1000.0;
        let limit = MAX_REJECTED_PER_SECOND * seconds.max(1.0);
        finding.check(rejected.requests as f64 <= limit, || {
            format!("{}: {} requests in {seconds:.1} s", rejected.account, rejected.requests)
        });
    }
    finding
}

/// No secret appears in clear text.
pub(super) fn no_secrets_leaked(evidence: &Evidence) -> Finding {
    let mut finding = Finding::new("no card number, security code or key in any log, row, Redis key or response");
    finding.checked = evidence.searched;
    finding.violations.clone_from(&evidence.leaks);
    finding
}

/// Every process that was not killed is running.
pub(super) fn no_unexpected_exits(evidence: &Evidence) -> Finding {
    let mut finding = Finding::new("no process exited by itself");
    finding.checked = 1;
    finding.violations.clone_from(&evidence.unexpected_exits);
    finding
}

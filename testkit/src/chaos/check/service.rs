//! How the processes behaved, whatever became of the money.

use super::Finding;
use crate::chaos::evidence::Evidence;

/// What a fault has broken may need so long to be whole again, in milliseconds.
const AFTERWARDS: i64 = 10_000;
/// Of an answer enough to know it by.
const ANSWER: usize = 160;
/// How many requests of an account all workers together may send in a second to a provider that turns everything away: one for
/// somebody who waits, and now and then a probe.
const IN_VAIN: f64 = 1.5;

/// Whoever was answered 500 asked while something was broken that explains it.
pub(super) fn explained(evidence: &Evidence) -> Finding {
    let mut finding = Finding::of("a 500 is explained by a fault");
    for entry in evidence.requests.iter().filter(|entry| entry.status.is_some()) {
        let during = |window: &&crate::chaos::faults::Window| {
            window.from <= entry.ended && entry.sent <= window.to.saturating_add(AFTERWARDS)
        };
        let fault = evidence.windows.iter().find(|window| window.fault.explains_a_500() && during(window));
        finding.holds(entry.status != Some(500) || fault.is_some(), || {
            let answer: String = entry.answer.chars().take(ANSWER).collect();
            format!("{} at {}: {answer}", entry.request, entry.sent)
        });
    }
    finding
}

/// Postgres has ended no transaction of ours because two waited for each other.
pub(super) fn no_deadlock(evidence: &Evidence) -> Finding {
    let mut finding = Finding::of("Postgres has counted no deadlock");
    finding.holds(evidence.deadlocks == 0, || format!("{} deadlocks", evidence.deadlocks));
    finding
}

/// No connection was given back to its pool inside a transaction: what the next one writes there is acknowledged and lost.
pub(super) fn each_transaction_ends(evidence: &Evidence) -> Finding {
    let mut finding = Finding::of("no connection goes back to its pool inside a transaction");
    let count = evidence.begun_twice;
    finding.holds(count == 0, || format!("{count} transactions were begun inside of another"));
    finding
}

/// A process whose clock is wrong by more than 2 s is not ready, and says why.
pub(super) fn wrong_clocks_are_noticed(evidence: &Evidence) -> Finding {
    let mut finding = Finding::of("a process whose clock is wrong says so and is not ready");
    finding.checked = evidence.asked_for_the_time;
    finding.violations.clone_from(&evidence.ready_with_a_wrong_clock);
    finding
}

/// A provider that turns everything away is asked seldom.
pub(super) fn seldom_in_vain(evidence: &Evidence) -> Finding {
    let mut finding = Finding::of("a provider that turns everything away is asked seldom");
    for sent in &evidence.sent_in_vain {
        let seconds = sent.milliseconds as f64 / 1000.0;
        let most = IN_VAIN * seconds.max(1.0);
        finding.holds(sent.requests as f64 <= most, || {
            format!("{}: {} requests in {seconds:.1} s", sent.account, sent.requests)
        });
    }
    finding
}

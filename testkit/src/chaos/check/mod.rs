//! The checker. Its input is what was requested, what the providers recorded, what the endpoints received and what the
//! API returns. It does not depend on how the service works.

mod billing;
mod calendar;
mod charges;
mod completion;
mod fields;
mod finding;
mod payments;
mod processes;
mod reconciliation;
mod requested;
#[cfg(test)]
mod tests;
mod too_early;
mod webhooks;

pub(super) use self::finding::Finding;
use super::evidence::Evidence;

/// The invariants of faults that containers do not have.
pub(super) const NOT_OF_CONTAINERS: [&str; 2] = [processes::WRONG_CLOCKS, processes::REJECTED_REQUESTS];

/// The invariants of every release.
pub(super) fn check(evidence: &Evidence) -> Vec<Finding> {
    vec![
        charges::at_most_one(evidence, charges::Purpose::Key),
        charges::at_most_one(evidence, charges::Purpose::Token),
        charges::at_most_one(evidence, charges::Purpose::Invoice),
        charges::at_most_one(evidence, charges::Purpose::Link),
        charges::at_most_one(evidence, charges::Purpose::Cycle),
        charges::one_charge_per_reference(evidence),
        charges::ledger_matches_payments(evidence),
        charges::rejected_payments_are_not_charged(evidence),
        payments::accepted_payments_are_final(evidence),
        payments::acknowledged_objects_exist(evidence),
        payments::amounts_match_ledger(evidence),
        payments::one_response_per_key(evidence),
        payments::nothing_after_void(evidence),
        billing::paid_if_charged(evidence),
        billing::attempts(evidence),
        billing::periods(evidence),
        webhooks::events_reach_every_endpoint(evidence),
        webhooks::redeliveries_are_identical(evidence),
        completion::no_work_left(evidence),
        processes::no_secrets_leaked(evidence),
        processes::no_unexpected_exits(evidence),
    ]
}

/// The invariants that previous releases may violate: see [`crate::chaos::fault::Fault::NEWLY_SUPPORTED`].
pub(super) fn check_current_release(evidence: &Evidence) -> Vec<Finding> {
    vec![
        too_early::nothing_early(evidence),
        completion::due_invoices_are_paid(evidence),
        completion::failed_attempts_were_declined(evidence),
        completion::refunds_and_reversals_are_made(evidence),
        completion::unrequested_totals(evidence),
        reconciliation::records_agree(evidence),
        reconciliation::child_references_are_unique(evidence),
        webhooks::failed_payments_are_announced(evidence),
        processes::internal_errors_are_explained(evidence),
        processes::no_deadlocks(evidence),
        processes::no_nested_transactions(evidence),
        processes::wrong_clocks_are_reported(evidence),
        processes::few_rejected_requests(evidence),
    ]
}

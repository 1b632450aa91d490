//! The checker. It knows what was asked for, what the providers booked, what the endpoints heard and what the API shows now,
//! and nothing of how any of it came about.

mod asked;
mod billing;
mod books;
mod calendar;
pub(super) mod canary;
mod charges;
mod dates;
mod done;
mod payments;
mod service;
#[cfg(test)]
mod tests;
mod told;

use serde_json::Value;

use super::evidence::Evidence;

/// One invariant: how often it was asked, and what spoke against it.
#[derive(Clone, Debug)]
pub(super) struct Finding {
    pub(super) invariant: &'static str,
    pub(super) checked: u64,
    pub(super) violations: Vec<String>,
    /// What was counted apart, and why.
    pub(super) apart: u64,
}

impl Finding {
    pub(super) fn of(invariant: &'static str) -> Self {
        Self { invariant, checked: 0, violations: Vec::new(), apart: 0 }
    }

    /// Asks once.
    pub(super) fn holds(&mut self, holds: bool, otherwise: impl FnOnce() -> String) {
        self.checked += 1;
        if !holds {
            self.violations.push(otherwise());
        }
    }
}

/// What every release keeps.
pub(super) fn check(evidence: &Evidence) -> Vec<Finding> {
    vec![
        charges::at_most_one(evidence, charges::Purpose::Key),
        charges::at_most_one(evidence, charges::Purpose::Token),
        charges::at_most_one(evidence, charges::Purpose::Invoice),
        charges::at_most_one(evidence, charges::Purpose::Link),
        charges::at_most_one(evidence, charges::Purpose::Cycle),
        charges::one_reference(evidence),
        charges::ledger_and_payments(evidence),
        charges::refused_did_nothing(evidence),
        payments::accepted_is_terminal(evidence),
        payments::accepted_is_there(evidence),
        payments::sums(evidence),
        payments::one_key_one_answer(evidence),
        payments::nothing_after_the_end(evidence),
        billing::paid_is_charged(evidence),
        billing::attempts(evidence),
        billing::periods(evidence),
        told::events(evidence),
        told::identical(evidence),
        told::nothing_left(evidence),
        told::no_canary(evidence),
        told::nobody_died(evidence),
    ]
}

/// What a release from before these rules may break: see [`crate::chaos::schedule::Fault::NEW`].
pub(super) fn check_of_this_release(evidence: &Evidence) -> Vec<Finding> {
    vec![
        dates::nothing_early(evidence),
        done::due_is_paid(evidence),
        done::failed_was_refused(evidence),
        done::given_back(evidence),
        done::nobody_asked(evidence),
        books::agree(evidence),
        books::children_are_named(evidence),
        told::failures(evidence),
        service::explained(evidence),
        service::no_deadlock(evidence),
        service::each_transaction_ends(evidence),
        service::wrong_clocks_are_noticed(evidence),
        service::seldom_in_vain(evidence),
    ]
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field].as_str().unwrap_or_default()
}

fn number(object: &Value, field: &str) -> i64 {
    object[field].as_i64().unwrap_or(0)
}

/// The money was taken or is held.
fn is_live(payment: &Value) -> bool {
    let live =
        ["authorized", "partially_authorized", "pending_settlement", "settled", "partially_refunded", "refunded"];
    live.contains(&text(payment, "status"))
}

//! What must hold after a history, written from docs/ alone: it shares no code with what it checks.

mod availability;
mod billing;
mod books;
mod calendar;
mod challenges;
mod disputes;
mod events;
mod evidence;
mod invoices;
mod keys;
mod ledger;
mod lifecycle;
mod objects;
mod recurring;
mod renewals;
mod responses;
mod stopped;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

pub use self::books::{
    Anomaly, AtStripe, Books, CLOCK, Challenged, DISPUTE_DAYS, EVENTS, GivenUp, KNOWN_DISPUTES, Line, PageCard,
    ProviderDispute, SENDING, Sent, UNFINISHED, read_books,
};
pub use self::evidence::Evidence;
use crate::client::Response;
use crate::history::History;

/// Collects a sentence for each violation.
#[derive(Default)]
struct Violations(Vec<String>);

impl Violations {
    /// Records a sentence unless the condition holds.
    fn check(&mut self, holds: bool, sentence: impl FnOnce() -> String) {
        if !holds {
            self.0.push(sentence());
        }
    }
}

/// Returns a sentence for each violation.
pub fn check(evidence: &Evidence<'_>) -> Vec<String> {
    let mut violations = Violations::default();
    for check in [
        responses::check,
        objects::check,
        keys::check,
        ledger::check,
        lifecycle::check,
        events::check,
        invoices::check,
        stopped::check,
        availability::check,
        billing::check,
        recurring::check,
        renewals::check,
        disputes::check,
        challenges::check,
    ] {
        check(evidence, &mut violations);
    }
    violations.0
}

/// The objects that successful responses name.
pub fn named(responses: &[Option<Response>]) -> BTreeSet<String> {
    let ids = responses.iter().flatten().filter_map(|response| match response {
        Response::Received(response) if response.succeeded() => response.json["id"].as_str(),
        Response::Received(_) | Response::Lost | Response::Skipped => None,
    });
    ids.map(str::to_owned).collect()
}

/// How often each operation got which status, for the report.
pub fn statuses(history: &History, responses: &[Option<Response>]) -> BTreeMap<String, BTreeMap<String, u64>> {
    let mut counts: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
    for (timed, response) in history.requests.iter().zip(responses) {
        let status = match response {
            Some(Response::Received(response)) => response.status.to_string(),
            Some(Response::Lost) => "lost".to_owned(),
            Some(Response::Skipped) => "skipped".to_owned(),
            None => "none".to_owned(),
        };
        *counts.entry(timed.request.operation()).or_default().entry(status).or_default() += 1;
    }
    counts
}

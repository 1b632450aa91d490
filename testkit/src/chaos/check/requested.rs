//! What clients have requested, and the amounts that may be charged for it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::fields::{number, text};
use crate::chaos::{evidence::Evidence, journal::Entry, time};

/// The amounts that may be charged for a requested amount: itself, and the totals of a page with modifiers.
pub(super) fn totals(evidence: &Evidence, shop: usize, amount: i64) -> Vec<i64> {
    let added = evidence.modifiers.get(shop).copied().flatten().map(|modifiers| modifiers.totals(amount));
    std::iter::once(amount).chain(added.into_iter().flatten()).collect()
}

/// The amount that a request may charge at some time, if any.
fn amount(entry: &Entry) -> Option<i64> {
    match entry.request.as_str() {
        "POST /v1/payments" | "POST /v1/invoices" | "POST /v1/payment_links" | "POST /v1/plans" => {
            entry.body["amount"].as_i64()
        }
        "POST /v1/recurring_invoices" => entry.body["template"]["items"][0]["unitAmount"].as_i64(),
        _ => None,
    }
}

/// All amounts that may be charged in each shop, and their halves, for partial approvals.
pub(super) fn amounts(evidence: &Evidence) -> BTreeSet<(usize, i64)> {
    let mut amounts = BTreeSet::new();
    for entry in &evidence.requests {
        for total in amount(entry).into_iter().flat_map(|amount| totals(evidence, entry.shop, amount)) {
            amounts.extend([(entry.shop, total), (entry.shop, total / 2)]);
        }
    }
    amounts
}

/// Not rejected, so it may have taken effect.
pub(super) fn may_have_taken_effect(entry: &Entry) -> bool {
    entry.status.is_none_or(|status| !(400..500).contains(&status))
}

/// The id of the object that a request such as `POST /v1/invoices/inv_1/schedule` changes, if prefix and suffix match.
pub(super) fn changed_object<'a>(entry: &'a Entry, prefix: &str, suffix: &str) -> Option<&'a str> {
    entry.request.strip_prefix("POST ")?.strip_prefix(prefix)?.strip_suffix(suffix)
}

/// Upper bounds of the accounts' test clocks. A clock that was never moved shows real time.
#[derive(Debug, Default)]
pub(super) struct TestClocks(BTreeMap<usize, Vec<(i64, i64)>>);

impl TestClocks {
    pub(super) fn of(evidence: &Evidence) -> Self {
        let mut advances: BTreeMap<usize, Vec<(i64, i64)>> = BTreeMap::new();
        for entry in evidence.requests.iter().filter(|entry| entry.request == "POST /v1/test_clock/advance") {
            let to = time::parse_timestamp(text(&entry.body, "to"));
            advances.entry(entry.shop).or_default().extend(to.map(|to| (entry.sent, to)));
        }
        Self(advances)
    }

    /// The latest time that the clock may show at `at`. It runs on from where it was advanced to, and cannot be
    /// advanced before the request.
    pub(super) fn latest(&self, shop: usize, at: i64) -> i64 {
        let advances = self.0.get(&shop).into_iter().flatten();
        advances.filter(|(sent, _)| *sent <= at).map(|(sent, to)| to + at - sent).fold(at, i64::max)
    }

    /// Whether the clock was ever moved.
    pub(super) fn was_moved(&self, shop: usize) -> bool {
        self.0.contains_key(&shop)
    }
}

/// What was requested for an invoice.
#[derive(Debug, Default)]
pub(super) struct RequestedInvoice {
    pub(super) shop: usize,
    pub(super) amount: i64,
    pub(super) customer: String,
    /// Each request to schedule it: the time, the card, and whether it was acknowledged. In order.
    pub(super) schedules: Vec<(i64, String, bool)>,
    /// Whether it may have been taken out of collection.
    pub(super) withdrawn: bool,
}

/// All invoices created directly by clients.
pub(super) fn invoices(evidence: &Evidence) -> BTreeMap<String, RequestedInvoice> {
    let mut invoices: BTreeMap<String, RequestedInvoice> = BTreeMap::new();
    for entry in evidence.requests.iter().filter(|entry| entry.request == "POST /v1/invoices") {
        let response = entry.response_json();
        if entry.status == Some(201) {
            let (amount, customer) = (number(&response, "amount"), text(&response, "customerId").to_owned());
            let requested = RequestedInvoice { shop: entry.shop, amount, customer, ..RequestedInvoice::default() };
            invoices.insert(text(&response, "id").to_owned(), requested);
        }
    }
    for entry in evidence.requests.iter().filter(|entry| may_have_taken_effect(entry)) {
        let id_of = |suffix| changed_object(entry, "/v1/invoices/", suffix);
        if let Some(requested) = id_of("/schedule").and_then(|id| invoices.get_mut(id)) {
            let at = time::parse_timestamp(text(&entry.body, "collectAt")).unwrap_or(i64::MAX);
            let card = text(&entry.body, "paymentMethodId").to_owned();
            requested.schedules.push((at, card, entry.status == Some(200)));
        }
        if let Some(requested) =
            ["/void", "/cancel_schedule"].into_iter().find_map(id_of).and_then(|id| invoices.get_mut(id))
        {
            requested.withdrawn = true;
        }
    }
    invoices
}

/// Customers who may have several cards, because saving one was retried after a lost response.
pub(super) fn customers_with_several_cards(evidence: &Evidence) -> BTreeSet<&str> {
    let mut seen = BTreeSet::new();
    let saved = evidence.requests.iter().filter(|entry| entry.request == "POST /v1/payment_methods");
    let customers = saved.filter(|entry| may_have_taken_effect(entry)).map(|entry| text(&entry.body, "customerId"));
    customers.filter(|customer| !customer.is_empty() && !seen.insert(*customer)).collect()
}

/// The last four digits of the saved cards.
pub(super) fn cards(evidence: &Evidence) -> BTreeMap<String, String> {
    let mut cards = BTreeMap::new();
    let mut record = |card: &Value| {
        if let (Some(id), Some(last4)) = (card["id"].as_str(), card["last4"].as_str()) {
            cards.insert(id.to_owned(), last4.to_owned());
        }
    };
    for entry in evidence.requests.iter().filter(|entry| entry.request.contains(" /v1/payment_methods")) {
        let response = entry.response_json();
        record(&response);
        response["data"].as_array().into_iter().flatten().for_each(&mut record);
    }
    cards
}

//! What the clients have asked for, and what may be charged for it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{number, text};
use crate::chaos::{evidence::Evidence, journal::Entry, time};

/// What may be charged for an amount: itself, and on a page that adds to it the sum with the tip or without.
pub(super) fn sums(evidence: &Evidence, shop: usize, amount: i64) -> Vec<i64> {
    let added = evidence.modifiers.get(shop).copied().flatten().map(|modifiers| modifiers.sums(amount));
    std::iter::once(amount).chain(added.into_iter().flatten()).collect()
}

/// The amount that a request would have charged at some time, if any.
fn amount(entry: &Entry) -> Option<i64> {
    match entry.request.as_str() {
        "POST /v1/payments" | "POST /v1/invoices" | "POST /v1/payment_links" | "POST /v1/plans" => {
            entry.body["amount"].as_i64()
        }
        "POST /v1/recurring_invoices" => entry.body["template"]["items"][0]["unitAmount"].as_i64(),
        _ => None,
    }
}

/// All that may be charged in each shop. Half of it, where an issuer approves a part.
pub(super) fn amounts(evidence: &Evidence) -> BTreeSet<(usize, i64)> {
    let mut amounts = BTreeSet::new();
    for entry in &evidence.requests {
        for sum in amount(entry).into_iter().flat_map(|amount| sums(evidence, entry.shop, amount)) {
            amounts.extend([(entry.shop, sum), (entry.shop, sum / 2)]);
        }
    }
    amounts
}

/// It was not refused, so it may have been done.
pub(super) fn may_be_done(entry: &Entry) -> bool {
    entry.status.is_none_or(|status| !(400..500).contains(&status))
}

/// The object that a request such as `POST /v1/invoices/inv_1/schedule` changes, if it is of this kind.
pub(super) fn changes<'a>(entry: &'a Entry, prefix: &str, verb: &str) -> Option<&'a str> {
    entry.request.strip_prefix("POST ")?.strip_prefix(prefix)?.strip_suffix(verb)
}

/// How far an account's clock may have come at a moment. A clock that was never moved shows the moment itself.
#[derive(Debug, Default)]
pub(super) struct Clocks(BTreeMap<usize, Vec<(i64, i64)>>);

impl Clocks {
    pub(super) fn of(evidence: &Evidence) -> Self {
        let mut advances: BTreeMap<usize, Vec<(i64, i64)>> = BTreeMap::new();
        for entry in evidence.requests.iter().filter(|entry| entry.request == "POST /v1/test_clock/advance") {
            let to = time::parsed(text(&entry.body, "to"));
            advances.entry(entry.shop).or_default().extend(to.map(|to| (entry.sent, to)));
        }
        Self(advances)
    }

    /// It goes on ticking from where it was led to, and was not led there before anybody asked for it.
    pub(super) fn latest(&self, shop: usize, at: i64) -> i64 {
        let advances = self.0.get(&shop).into_iter().flatten();
        advances.filter(|(sent, _)| *sent <= at).map(|(sent, to)| to + at - sent).fold(at, i64::max)
    }

    /// Whether time was ever moved.
    pub(super) fn moves(&self, shop: usize) -> bool {
        self.0.contains_key(&shop)
    }
}

/// What was asked for about an invoice.
#[derive(Debug, Default)]
pub(super) struct Asked {
    pub(super) shop: usize,
    pub(super) amount: i64,
    pub(super) customer: String,
    /// When to collect it and by which card, in the order asked, and whether that was acknowledged.
    pub(super) schedules: Vec<(i64, String, bool)>,
    /// Somebody may have taken it out of collection again.
    pub(super) taken_back: bool,
}

/// All invoices that clients have made themselves.
pub(super) fn invoices(evidence: &Evidence) -> BTreeMap<String, Asked> {
    let mut invoices: BTreeMap<String, Asked> = BTreeMap::new();
    for entry in evidence.requests.iter().filter(|entry| entry.request == "POST /v1/invoices") {
        let said = entry.said();
        if entry.status == Some(201) {
            let (amount, customer) = (number(&said, "amount"), text(&said, "customerId").to_owned());
            let asked = Asked { shop: entry.shop, amount, customer, ..Asked::default() };
            invoices.insert(text(&said, "id").to_owned(), asked);
        }
    }
    for entry in evidence.requests.iter().filter(|entry| may_be_done(entry)) {
        let of = |verb| changes(entry, "/v1/invoices/", verb);
        if let Some(asked) = of("/schedule").and_then(|id| invoices.get_mut(id)) {
            let at = time::parsed(text(&entry.body, "collectAt")).unwrap_or(i64::MAX);
            let card = text(&entry.body, "paymentMethodId").to_owned();
            asked.schedules.push((at, card, entry.status == Some(200)));
        }
        if let Some(asked) = ["/void", "/cancel_schedule"].into_iter().find_map(of).and_then(|id| invoices.get_mut(id))
        {
            asked.taken_back = true;
        }
    }
    invoices
}

/// Customers who may have more than one card: saving one was tried again because the first answer was lost.
pub(super) fn with_several_cards(evidence: &Evidence) -> BTreeSet<&str> {
    let mut once = BTreeSet::new();
    let saved = evidence.requests.iter().filter(|entry| entry.request == "POST /v1/payment_methods");
    let customers = saved.filter(|entry| may_be_done(entry)).map(|entry| text(&entry.body, "customerId"));
    customers.filter(|customer| !customer.is_empty() && !once.insert(*customer)).collect()
}

/// The last digits of the cards that clients have saved.
pub(super) fn cards(evidence: &Evidence) -> BTreeMap<String, String> {
    let mut cards = BTreeMap::new();
    let mut note = |card: &Value| {
        if let (Some(id), Some(last4)) = (card["id"].as_str(), card["last4"].as_str()) {
            cards.insert(id.to_owned(), last4.to_owned());
        }
    };
    for entry in evidence.requests.iter().filter(|entry| entry.request.contains(" /v1/payment_methods")) {
        let said = entry.said();
        note(&said);
        said["data"].as_array().into_iter().flatten().for_each(&mut note);
    }
    cards
}

//! What merchants hear, and what nobody may.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Finding, number, text};
use crate::chaos::evidence::{Evidence, Shown};

/// (type of the event, id of its object)
type Wanted = (String, String);

/// What must have been told of an account, and how many events of each.
fn wanted(shown: &Shown) -> BTreeMap<Wanted, usize> {
    let mut wanted = BTreeMap::new();
    let mut want = |kind: &str, object: &Value, count: usize| {
        if count > 0 {
            wanted.insert((kind.to_owned(), text(object, "id").to_owned()), count);
        }
    };
    for payment in &shown.payments {
        let status = text(payment, "status");
        let refunds = payment["refunds"].as_array().into_iter().flatten();
        let ended =
            |status: &'static str| refunds.clone().filter(move |refund| text(refund, "status") == status).count();
        let taken = number(payment, "amountCaptured") > 0 && status != "cancelled";
        want("payment.captured", payment, usize::from(taken));
        want("payment.declined", payment, usize::from(status == "declined"));
        want("payment.cancelled", payment, usize::from(status == "cancelled"));
        want("payment.settled", payment, usize::from(payment["settled"] == true));
        want("payment.refunded", payment, ended("succeeded"));
        want("payment.refund_failed", payment, ended("failed"));
    }
    for invoice in &shown.invoices {
        want("invoice.paid", invoice, usize::from(invoice["paidAt"].is_string()));
        want("invoice.voided", invoice, usize::from(text(invoice, "status") == "voided"));
        want("invoice.issued", invoice, usize::from(invoice["issuedAt"].is_string()));
    }
    for link in &shown.links {
        want("payment_link.paid", link, usize::from(link["paidAt"].is_string()));
        want("payment_link.cancelled", link, usize::from(text(link, "status") == "cancelled"));
    }
    for subscription in &shown.subscriptions {
        want("subscription.created", subscription, 1);
    }
    wanted
}

/// Each of both endpoints has taken each event, and no event was written twice.
pub(super) fn events(evidence: &Evidence) -> Finding {
    let mut finding = Finding::of("each event reached each endpoint");
    let mut taken: BTreeMap<(usize, Wanted), BTreeSet<&str>> = BTreeMap::new();
    let mut known: BTreeMap<Wanted, BTreeSet<&str>> = BTreeMap::new();
    let mut heard: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    for received in &evidence.received {
        let event: Value = serde_json::from_str(&received.body).unwrap_or(Value::Null);
        let of = (text(&event, "type").to_owned(), text(&event["data"]["object"], "id").to_owned());
        known.entry(of.clone()).or_default().insert(&received.event);
        if received.taken {
            taken.entry((received.endpoint, of)).or_default().insert(&received.event);
        }
        heard.entry(&received.event).or_default().insert(received.endpoint);
    }
    let pending: BTreeSet<&(usize, String, String)> = evidence.shown.iter().flat_map(|shown| &shown.pending).collect();
    // Each excuses one of its type that nobody has heard.
    let mut unheard: BTreeMap<(usize, String), usize> = BTreeMap::new();
    for (endpoint, event, kind) in pending.iter().copied() {
        if !heard.contains_key(event.as_str()) {
            *unheard.entry((*endpoint, kind.clone())).or_default() += 1;
        }
    }
    for (shop, shown) in evidence.shown.iter().enumerate() {
        for (of, count) in wanted(shown) {
            for endpoint in [shop * 2, shop * 2 + 1] {
                let got = taken.get(&(endpoint, of.clone())).map_or(0, BTreeSet::len);
                let named = known.get(&of);
                let is_named = |event: &String| named.is_some_and(|named| named.contains(event.as_str()));
                let named_waits = pending.iter().filter(|(to, event, _)| *to == endpoint && is_named(event)).count();
                let lacking = count.saturating_sub(got + named_waits);
                let others = unheard.entry((endpoint, of.0.clone())).or_default();
                let waits = got < count && lacking <= *others;
                *others = others.saturating_sub(if waits { lacking } else { 0 });
                finding.apart += u64::from(waits);
                finding.holds(got == count || waits, || {
                    format!("endpoint {endpoint}: {} of {}: {got} of {count}", of.0, of.1)
                });
            }
        }
    }
    for (event, endpoints) in heard {
        let shop = endpoints.first().map_or(0, |endpoint| endpoint / 2);
        let both = BTreeSet::from([shop * 2, shop * 2 + 1]);
        let waits = pending.iter().any(|(_, waiting, _)| waiting == event);
        finding.holds(endpoints == both || waits, || format!("{event} reached only {endpoints:?}"));
    }
    finding
}

/// A payment that has failed is announced, to both endpoints.
pub(super) fn failures(evidence: &Evidence) -> Finding {
    const FAILED: &str = "payment.failed";
    let mut finding = Finding::of("each failed payment is announced");
    let mut heard: BTreeSet<(usize, String)> = BTreeSet::new();
    for received in evidence.received.iter().filter(|received| received.taken) {
        let event: Value = serde_json::from_str(&received.body).unwrap_or(Value::Null);
        if text(&event, "type") == FAILED {
            heard.insert((received.endpoint, text(&event["data"]["object"], "id").to_owned()));
        }
    }
    for (shop, shown) in evidence.shown.iter().enumerate() {
        for payment in shown.payments.iter().filter(|payment| text(payment, "status") == "failed") {
            let id = text(payment, "id");
            for endpoint in [shop * 2, shop * 2 + 1] {
                let waits = shown.pending.iter().any(|(to, _, kind)| *to == endpoint && kind == FAILED);
                let told = heard.contains(&(endpoint, id.to_owned()));
                finding.apart += u64::from(waits && !told);
                finding.holds(told || waits, || format!("endpoint {endpoint} was never told of {id}"));
            }
        }
    }
    finding
}

/// Whoever hears of an event again hears the same bytes.
pub(super) fn identical(evidence: &Evidence) -> Finding {
    let mut finding = Finding::of("an event is the same bytes each time");
    let mut bodies: BTreeMap<&str, &str> = BTreeMap::new();
    for received in &evidence.received {
        let first = *bodies.entry(&received.event).or_insert(&received.body);
        finding.holds(first == received.body && !received.event.is_empty(), || {
            format!("{}: {first} and {}", received.event, received.body)
        });
    }
    finding
}

/// All is done.
pub(super) fn nothing_left(evidence: &Evidence) -> Finding {
    let mut finding = Finding::of("nothing is left to be done after the quiet time");
    for (what, count) in &evidence.left {
        finding.holds(*count == 0, || format!("{count} {what}"));
    }
    finding
}

/// No secret stands anywhere in clear.
pub(super) fn no_canary(evidence: &Evidence) -> Finding {
    let mut finding = Finding::of("no card number, security code or key in any log, row, Redis key or answer");
    finding.checked = evidence.searched;
    finding.violations.clone_from(&evidence.leaks);
    finding
}

/// Whoever was not killed runs.
pub(super) fn nobody_died(evidence: &Evidence) -> Finding {
    let mut finding = Finding::of("no process ended by itself");
    finding.checked = 1;
    finding.violations.clone_from(&evidence.died);
    finding
}

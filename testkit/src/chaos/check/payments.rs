//! What was accepted comes to its end, and is what the ledgers say.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Finding, asked, number, text};
use crate::chaos::evidence::{Booked, Evidence};

/// The difference between our clock and the database's, and the time that a commit takes, at most.
const SLACK: i64 = 50;

/// Every payment that a client was told of is there and has ended.
pub(super) fn accepted_is_terminal(evidence: &Evidence) -> Finding {
    let mut finding = Finding::of("every accepted payment is there and has ended");
    let mut shown: BTreeMap<&str, &Value> = BTreeMap::new();
    for payment in evidence.shown.iter().flat_map(|shown| &shown.payments) {
        shown.insert(text(payment, "id"), payment);
    }
    let mut told: BTreeSet<String> = BTreeSet::new();
    for entry in evidence.requests.iter().filter(|e| e.request == "POST /v1/payments" && e.status == Some(201)) {
        told.insert(text(&entry.said(), "id").to_owned());
    }
    for id in &told {
        finding.holds(shown.contains_key(id.as_str()), || format!("{id} was accepted and is not there"));
    }
    for (shop, of) in evidence.shown.iter().enumerate() {
        for payment in &of.payments {
            let status = text(payment, "status");
            let open = status == "requires_action" || (evidence.class_c.contains(&shop) && is_unknown(payment));
            finding.apart += u64::from(open);
            let ended = status != "processing" && payment.get("pendingOperation").is_none();
            finding.holds(open || ended, || {
                format!("{} is still {status}, {}", text(payment, "id"), payment["pendingOperation"])
            });
        }
    }
    finding
}

/// Whatever else a client was told of is there, and a void that was acknowledged has stayed.
pub(super) fn accepted_is_there(evidence: &Evidence) -> Finding {
    let mut finding = Finding::of("whatever was acknowledged is there");
    let mut there: BTreeMap<&str, &Value> = BTreeMap::new();
    for shown in &evidence.shown {
        let lists = [&shown.payments, &shown.invoices, &shown.links, &shown.subscriptions, &shown.recurring];
        let refunds = shown.payments.iter().flat_map(refunds);
        there.extend(lists.into_iter().flatten().chain(refunds).map(|object| (text(object, "id"), object)));
    }
    let kept = ["/refund", "/v1/invoices", "/v1/payment_links", "/v1/subscriptions", "/v1/recurring_invoices"];
    for entry in evidence.requests.iter().filter(|entry| entry.status.is_some_and(|status| status < 300)) {
        let said = entry.said();
        let id = text(&said, "id");
        if entry.request.starts_with("POST ") && kept.iter().any(|end| entry.request.ends_with(end)) {
            finding.holds(there.contains_key(id), || format!("{id} of {} is not there", entry.request));
        }
        let is_void = entry.request.starts_with("POST /v1/payments/") && entry.request.ends_with("/void");
        if is_void && text(&said, "status") == "cancelled" {
            let now = there.get(id).map_or("not there", |payment| text(payment, "status"));
            finding.holds(now == "cancelled", || format!("{id} was told to be cancelled and is {now}"));
        }
    }
    finding
}

fn is_unknown(payment: &Value) -> bool {
    text(payment, "status") == "processing"
        || payment.get("pendingOperation").is_some()
        || refunds(payment).any(|refund| text(refund, "status") == "pending")
}

fn refunds(payment: &Value) -> impl Iterator<Item = &Value> {
    payment["refunds"].as_array().into_iter().flatten()
}

/// What followed each charge in the ledgers.
fn children(evidence: &Evidence) -> BTreeMap<(usize, &str), Vec<&Booked>> {
    let mut children: BTreeMap<_, Vec<&Booked>> = BTreeMap::new();
    for line in evidence.ledger.iter().filter(|line| line.approved) {
        if let Some(parent) = &line.parent {
            children.entry((line.shop, parent.as_str())).or_default().push(line);
        }
    }
    children
}

/// Payments of an amount of their own, with their one charge in the ledger.
fn paired(evidence: &Evidence) -> Vec<(usize, &Value, &Booked)> {
    let mut lines: BTreeMap<(usize, i64), Vec<&Booked>> = BTreeMap::new();
    for line in evidence.ledger.iter().filter(|line| line.is_charge() && line.approved) {
        lines.entry((line.shop, line.amount)).or_default().push(line);
    }
    let mut pairs = Vec::new();
    for (shop, shown) in evidence.shown.iter().enumerate() {
        for payment in &shown.payments {
            let has_money = !["processing", "requires_action", "declined", "failed"].contains(&text(payment, "status"));
            if let Some([line]) = lines.get(&(shop, number(payment, "amount"))).map(Vec::as_slice)
                && has_money
            {
                pairs.push((shop, payment, *line));
            }
        }
    }
    pairs
}

/// 0 ≤ refunded + reserved ≤ captured ≤ authorized, and each is the ledger's sum.
pub(super) fn sums(evidence: &Evidence) -> Finding {
    let mut finding = Finding::of("refunded + reserved ≤ captured ≤ authorized, as in the ledger");
    bounded_in_each_answer(evidence, &mut finding);
    let children = children(evidence);
    for (shop, payment, charge) in paired(evidence) {
        let sum = |kind: &str| -> i64 {
            let of = children.get(&(shop, charge.id.as_str())).into_iter().flatten();
            of.filter(|line| line.kind == kind).map(|line| line.amount).sum()
        };
        let captured = if charge.kind == "sale" { charge.amount } else { sum("capture") };
        let refunded = sum("refund");
        let [amount, shown_captured, shown_refunded] =
            ["amount", "amountCaptured", "amountRefunded"].map(|f| number(payment, f));
        let reserved: i64 =
            refunds(payment).filter(|r| text(r, "status") == "pending").map(|r| number(r, "amount")).sum();
        let id = text(payment, "id");
        let bounded = 0 <= shown_refunded && shown_refunded + reserved <= shown_captured && shown_captured <= amount;
        finding.holds(bounded && refunded <= captured && captured <= charge.amount, || {
            format!(
                "{id}: {shown_refunded} + {reserved} of {shown_captured} of {amount}; ledger {refunded} of {captured}"
            )
        });
        let unknown = payment.get("pendingOperation").is_some() || reserved > 0;
        finding.apart += u64::from(unknown);
        let same = shown_captured == captured && shown_refunded == refunded && amount == charge.amount;
        let within = (shown_refunded..=shown_refunded + reserved).contains(&refunded);
        let voided = text(payment, "status") == "cancelled" && refunded == shown_refunded;
        finding.holds(if unknown { within } else { same || voided }, || {
            format!(
                "{id}: captured {shown_captured}, refunded {shown_refunded}; ledger ({}) {captured}, {refunded}",
                charge.id
            )
        });
        let is_voided = text(payment, "status") == "cancelled";
        finding.holds(unknown || is_voided == charge.voided, || {
            format!("{id} is {}; voided in the ledger: {}", text(payment, "status"), charge.voided)
        });
    }
    finding
}

/// The same in whatever the API has ever said: what a refund under way will give back is reserved from the start.
fn bounded_in_each_answer(evidence: &Evidence, finding: &mut Finding) {
    for entry in evidence.requests.iter().filter(|entry| entry.status.is_some_and(|status| status < 300)) {
        let said = entry.said();
        if text(&said, "object") != "payment" {
            continue;
        }
        let reserved: i64 = refunds(&said)
            .filter(|refund| text(refund, "status") == "pending")
            .map(|refund| number(refund, "amount"))
            .sum();
        let [captured, refunded] = ["amountCaptured", "amountRefunded"].map(|field| number(&said, field));
        finding.holds(refunded + reserved <= captured, || {
            format!("{}: {refunded} + {reserved} of {captured} were told at {}", text(&said, "id"), entry.ended)
        });
    }
}

/// Whoever repeats a key is told of one payment, and of one end, byte by byte.
pub(super) fn one_key_one_answer(evidence: &Evidence) -> Finding {
    let mut finding = Finding::of("one key, one payment, one final answer");
    type Told<'a> = (BTreeSet<String>, BTreeSet<&'a str>);
    let mut answers: BTreeMap<(usize, &str), Told<'_>> = BTreeMap::new();
    for entry in evidence.requests.iter().filter(|e| e.request == "POST /v1/payments" && e.status == Some(201)) {
        let Some(key) = &entry.key else { continue };
        let said = entry.said();
        let (ids, finals) = answers.entry((entry.shop, key)).or_default();
        ids.insert(text(&said, "id").to_owned());
        if text(&said, "status") != "processing" {
            finals.insert(&entry.answer);
        }
    }
    for ((shop, key), (ids, finals)) in answers {
        finding.holds(ids.len() == 1 && finals.len() <= 1, || format!("shop {shop}, {key}: {ids:?}, {finals:?}"));
    }
    finding
}

/// Once a void or a cancel was answered 200, nothing more is charged, captured or refunded.
pub(super) fn nothing_after_the_end(evidence: &Evidence) -> Finding {
    let mut finding = Finding::of("nothing is sent after a void or cancel was acknowledged");
    let mut ended: BTreeMap<(usize, i64), i64> = BTreeMap::new();
    let mut voided: BTreeMap<String, i64> = BTreeMap::new();
    for entry in evidence.requests.iter().filter(|entry| entry.status == Some(200)) {
        let of_thing = |prefix: &str, verb: &str| entry.request.starts_with(prefix) && entry.request.ends_with(verb);
        let said = entry.said();
        if of_thing("POST /v1/invoices/", "/void") || of_thing("POST /v1/payment_links/", "/cancel") {
            for sum in asked::sums(evidence, entry.shop, number(&said, "amount")) {
                ended.entry((entry.shop, sum)).or_insert(entry.ended);
            }
        } else if of_thing("POST /v1/payments/", "/void") && text(&said, "status") == "cancelled" {
            voided.entry(text(&said, "id").to_owned()).or_insert(entry.ended);
        }
    }
    for ((shop, amount), at) in ended {
        let late =
            |line: &&Booked| line.shop == shop && line.amount == amount && line.is_charge() && line.at > at + SLACK;
        let late = evidence.ledger.iter().find(late);
        finding.holds(late.is_none(), || format!("shop {shop}, amount {amount}: {:?} after {at}", late.map(|l| &l.id)));
    }
    let children = children(evidence);
    for (shop, payment, charge) in paired(evidence) {
        let Some(at) = voided.get(text(payment, "id")) else { continue };
        let mut after = children.get(&(shop, charge.id.as_str())).into_iter().flatten();
        let late = after.find(|line| line.kind != "void" && line.at > at + SLACK);
        finding.holds(late.is_none(), || format!("{}: {:?} after {at}", text(payment, "id"), late.map(|l| &l.id)));
    }
    finding
}

//! Nothing happens before its time, whatever a clock of ours says. Dates are judged by the run's clock, which none of the
//! processes has, and by a calendar of the checker's own.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    Finding,
    asked::{self, Clocks},
    calendar, number, text,
};
use crate::chaos::{
    evidence::{Booked, Evidence},
    time::{self, DAY},
};

/// The difference between the clocks of the checker, the database and a process that follows it, at most.
const TOLERANCE: i64 = 500;
const MINUTE: i64 = 60_000;

/// The lines of charges, approved or not, by shop and amount.
type Lines<'a> = BTreeMap<(usize, i64), Vec<&'a Booked>>;

/// No invoice, cycle, retry or collection is charged before it is due, and nothing settles or expires early.
pub(super) fn nothing_early(evidence: &Evidence) -> Finding {
    let mut finding = Finding::of("nothing is charged before it is due, and nothing ends before its time");
    let clocks = Clocks::of(evidence);
    let mut lines = Lines::new();
    for line in evidence.ledger.iter().filter(|line| line.is_charge()) {
        lines.entry((line.shop, line.amount)).or_default().push(line);
    }
    invoices(evidence, &clocks, &lines, &mut finding);
    subscriptions(evidence, &clocks, &lines, &mut finding);
    periods(evidence, &clocks, &mut finding);
    ends(evidence, &clocks, &mut finding);
    finding
}

/// Of an invoice nothing is sent before the earliest time that anybody has named, and in a run, which is shorter than the time
/// between two attempts, once for each time that it was scheduled; or twice, if the card is lost and is not the customer's default.
fn invoices(evidence: &Evidence, clocks: &Clocks, lines: &Lines<'_>, finding: &mut Finding) {
    let with_several_cards = asked::with_several_cards(evidence);
    for (id, asked) in asked::invoices(evidence) {
        let due = asked.schedules.iter().map(|(at, ..)| *at).min();
        // A part is half of it. What its page adds makes another amount.
        let of = [asked.amount, asked.amount / 2].map(|amount| lines.get(&(asked.shop, amount)));
        let of: Vec<&&Booked> = of.into_iter().flatten().flatten().collect();
        for line in &of {
            let latest = clocks.latest(asked.shop, line.at);
            finding.holds(due.is_some_and(|due| latest + TOLERANCE >= due), || {
                let due = due.map_or_else(|| "never".to_owned(), time::printed);
                format!("{id}, due {due}, was charged {} ({})", time::printed(line.at), line.id)
            });
        }
        if !clocks.moves(asked.shop) {
            let sent = of.iter().filter(|line| !line.interrupted).count();
            let cards = 1 + usize::from(with_several_cards.contains(asked.customer.as_str()));
            finding.holds(sent <= asked.schedules.len() * cards, || {
                format!("{id} was scheduled {} times and sent {sent} times within a run", asked.schedules.len())
            });
        }
    }
}

/// Of a subscription no more is charged than there are cycles that have begun.
fn subscriptions(evidence: &Evidence, clocks: &Clocks, lines: &Lines<'_>, finding: &mut Finding) {
    let mut plans: BTreeMap<String, Value> = BTreeMap::new();
    let mut asked: BTreeMap<&str, &Value> = BTreeMap::new();
    for entry in &evidence.requests {
        if entry.request == "POST /v1/plans" && entry.status.is_some_and(|status| status < 300) {
            let plan = entry.said();
            plans.insert(text(&plan, "id").to_owned(), plan);
        }
        if entry.request == "POST /v1/subscriptions" {
            asked.insert(text(&entry.body, "planId"), &entry.body["startAt"]);
        }
    }
    for (shop, shown) in evidence.shown.iter().enumerate() {
        for subscription in &shown.subscriptions {
            let (id, plan) = (text(subscription, "id"), text(subscription, "planId"));
            let (Some(plan), Some(wanted)) = (plans.get(plan), asked.get(plan)) else { continue };
            let start = text(subscription, "startAt");
            finding.holds(wanted.as_str().is_none_or(|wanted| wanted == start), || {
                format!("{id} was to begin {wanted} and begins {start}")
            });
            let Some(anchor) = time::days(start) else { continue };
            let mut of: Vec<&&Booked> = lines.get(&(shop, number(plan, "amount"))).into_iter().flatten().collect();
            of.sort_by_key(|line| line.at);
            let mut approved = 0;
            for line in of {
                approved += usize::from(line.approved);
                let day = (clocks.latest(shop, line.at) + TOLERANCE).div_euclid(DAY);
                let count = plan["intervalCount"].as_i64().unwrap_or(1);
                let begun = calendar::begun(anchor, text(plan, "interval"), count, day);
                finding.holds(begun >= approved.max(1), || {
                    let at = time::printed(line.at);
                    format!("{id}, from {start} on: charge {approved} at {at}, when {begun} cycles had begun")
                });
            }
        }
    }
}

/// No invoice is issued before its cycle begins: neither was one announced, nor is one there.
fn periods(evidence: &Evidence, clocks: &Clocks, finding: &mut Finding) {
    let begins = |invoice: &Value| time::days(text(invoice, "billingPeriod").split_once('/')?.0).map(|day| day * DAY);
    let mut ask = |shop: usize, at: i64, invoice: &Value, how: &str| {
        let Some(begins) = begins(invoice) else { return };
        finding.holds(clocks.latest(shop, at) + TOLERANCE >= begins, || {
            format!("{} of {} was {how} {}", text(invoice, "id"), invoice["billingPeriod"], time::printed(at))
        });
    };
    for (shop, shown) in evidence.shown.iter().enumerate() {
        shown.invoices.iter().for_each(|invoice| ask(shop, evidence.shown_by, invoice, "there"));
    }
    for received in &evidence.received {
        let event: Value = serde_json::from_str(&received.body).unwrap_or(Value::Null);
        if text(&event, "type") == "invoice.issued" {
            ask(received.endpoint / 2, received.at, &event["data"]["object"], "announced");
        }
    }
}

/// A hold lasts for a week, money on the mock settles after a minute, and a link lasts until the time that it shows.
fn ends(evidence: &Evidence, clocks: &Clocks, finding: &mut Finding) {
    let mut charges: BTreeMap<(usize, i64), &Booked> = BTreeMap::new();
    for line in evidence.ledger.iter().filter(|line| line.is_charge() && line.approved) {
        charges.entry((line.shop, line.amount)).or_insert(line);
    }
    for (shop, shown) in evidence.shown.iter().enumerate() {
        let latest = clocks.latest(shop, evidence.shown_by) + TOLERANCE;
        for payment in &shown.payments {
            let Some(Booked { at, at_gateway, .. }) = charges.get(&(shop, number(payment, "amount"))) else { continue };
            let (id, expired) = (text(payment, "id"), text(payment, "status") == "expired");
            finding.holds(!expired || at + 7 * DAY <= latest, || format!("{id} has expired within a week"));
            // At the gateway a day may end at any moment.
            let early = payment["settled"] == true && !at_gateway && at + MINUTE > latest;
            finding.holds(!early, || format!("{id} has settled within a minute"));
        }
        for link in shown.links.iter().filter(|link| text(link, "status") == "expired") {
            let until = time::parsed(text(link, "expiresAt")).unwrap_or(i64::MAX);
            finding.holds(until <= latest, || format!("{} has expired before {}", text(link, "id"), link["expiresAt"]));
        }
    }
}

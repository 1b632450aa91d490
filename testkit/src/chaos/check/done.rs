//! What was accepted is done. Once the faults are over and the providers are up, nothing waits for ever, and nothing has failed
//! that nobody refused.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Finding,
    asked::{self, Clocks},
    books, number, text,
};
use crate::chaos::{
    evidence::{Booked, Evidence},
    time,
};

/// The last digits of a card that approves.
const GOOD: &str = "4242";
/// What fell due at the last moment may still be on its way.
const MOMENT: i64 = 5000;
/// Failed attempts of which nothing was sent, and why.
const NOT_SENT: [&str; 2] = ["no_payment_method", "currency_not_supported"];

/// An invoice that is due, in collection and has a good card is paid.
pub(super) fn due_is_paid(evidence: &Evidence) -> Finding {
    let mut finding = Finding::of("an invoice that is due and has a good card is paid");
    let (clocks, cards) = (Clocks::of(evidence), asked::cards(evidence));
    let invoices = asked::invoices(evidence);
    // Where the provider charges more than it is asked for, nothing can be paid.
    let with_a_fee: BTreeSet<(usize, i64)> =
        evidence.ledger.iter().filter(|line| line.fee > 0).map(|line| (line.shop, line.amount - line.fee)).collect();
    for (shop, shown) in evidence.shown.iter().enumerate() {
        let by_now = clocks.latest(shop, evidence.now) - MOMENT;
        let subscribed: BTreeMap<&str, &str> =
            shown.subscriptions.iter().map(|sub| (text(sub, "id"), text(sub, "paymentMethodId"))).collect();
        for invoice in &shown.invoices {
            let id = text(invoice, "id");
            let card = match (invoices.get(id), subscribed.get(text(invoice, "subscriptionId"))) {
                // Nobody has named another time or card, and nobody has taken it back.
                (Some(asked), _) => match asked.schedules.as_slice() {
                    [(at, card, true)] if !asked.taken_back && *at <= by_now => card.as_str(),
                    _ => continue,
                },
                (None, Some(card)) => {
                    let issued = time::parsed(text(invoice, "issuedAt")).unwrap_or(i64::MAX);
                    if issued <= by_now { card } else { continue }
                }
                (None, None) => continue,
            };
            if cards.get(card).is_none_or(|last4| last4 != GOOD) {
                continue;
            }
            let is_unknown = |payment: &&serde_json::Value| {
                text(payment, "invoiceId") == id && text(payment, "status") == "processing"
            };
            let unpayable = with_a_fee.contains(&(shop, number(invoice, "amount")));
            let unknown = evidence.class_c.contains(&shop) && shown.payments.iter().any(|payment| is_unknown(&payment));
            if unknown || unpayable {
                finding.apart += 1;
                continue;
            }
            finding.holds(text(invoice, "status") == "paid", || {
                format!("shop {shop}: {id} is {}, next {}", text(invoice, "status"), invoice["nextAttemptAt"])
            });
        }
    }
    finding
}

/// Each failed attempt is one that an issuer has refused or approved in part, or of which the provider has said that it was
/// interrupted and has done nothing.
pub(super) fn failed_was_refused(evidence: &Evidence) -> Finding {
    let mut finding = Finding::of("an attempt has failed only where an issuer has refused it");
    let mut refused: BTreeMap<(usize, i64), usize> = BTreeMap::new();
    let mut parts: BTreeMap<(usize, i64), usize> = BTreeMap::new();
    for line in evidence.ledger.iter().filter(|line| line.is_charge()) {
        // Of another total than was asked the attempt fails, and the charge is given back: that is asked of by itself.
        let count = if line.approved && line.fee == 0 { &mut parts } else { &mut refused };
        *count.entry((line.shop, line.amount - line.fee)).or_default() += 1;
    }
    // Of several invoices of one amount, as those of a subscription, all together.
    let mut failed: BTreeMap<(usize, i64), Vec<String>> = BTreeMap::new();
    for (shop, shown) in evidence.shown.iter().enumerate() {
        for (id, attempts) in &shown.attempts {
            for attempt in attempts {
                let code = text(attempt, "declineCode");
                if text(attempt, "status") == "failed" && !NOT_SENT.contains(&code) {
                    let of = failed.entry((shop, number(attempt, "amount"))).or_default();
                    of.push(format!("{id} #{} ({code})", attempt["number"]));
                }
            }
        }
    }
    for ((shop, amount), attempts) in failed {
        let of = |counts: &BTreeMap<(usize, i64), usize>, amount| counts.get(&(shop, amount)).copied().unwrap_or(0);
        let answered = of(&refused, amount) + of(&parts, amount / 2);
        finding.holds(attempts.len() <= answered, || {
            format!("shop {shop}, {amount}: refused {answered} times, and failed: {}", attempts.join(", "))
        });
    }
    finding
}

/// A refund that was accepted is made, unless the provider could not have made it; and what must go back has gone back.
pub(super) fn given_back(evidence: &Evidence) -> Finding {
    let mut finding = Finding::of("every accepted refund is made, and every reversal");
    let charges = books::charges(evidence);
    for (shop, shown) in evidence.shown.iter().enumerate() {
        for payment in &shown.payments {
            let id = text(payment, "id");
            let of: Vec<&books::Charge<'_>> =
                charges.get(&(shop, number(payment, "amount"))).into_iter().flatten().collect();
            let refunds = payment["refunds"].as_array().map(Vec::as_slice).unwrap_or_default();
            let unknown = evidence.class_c.contains(&shop)
                && (payment.get("pendingOperation").is_some() || text(payment, "status") == "processing");
            for refund in refunds {
                let status = text(refund, "status");
                // What is still there at the end was there at any time before.
                let room = of.iter().any(|c| !c.is_voided() && c.captured() - c.refunded() >= number(refund, "amount"));
                finding.apart += u64::from(unknown && status == "pending");
                let made = status == "succeeded" || (unknown && status == "pending");
                finding.holds(made || (status == "failed" && !room), || {
                    format!("{} of {id} is {status}, and the provider has not refused it", text(refund, "id"))
                });
            }
            let in_part = number(payment, "amount") < number(payment, "amountRequested");
            let pays = payment["invoiceId"].is_string() || payment["paymentLinkId"].is_string();
            if in_part && pays && !unknown {
                let back = of.iter().all(|charge| charge.is_given_back());
                finding.holds(back, || format!("{id} is a part that pays nothing, and it was not given back"));
            }
        }
    }
    finding
}

/// A charge of another total than anybody has asked for is given back.
pub(super) fn nobody_asked(evidence: &Evidence) -> Finding {
    let mut finding = Finding::of("a total that nobody has asked for is given back");
    let asked = asked::amounts(evidence);
    for ((shop, amount), charges) in books::charges(evidence) {
        let is_asked = asked.contains(&(shop, amount));
        for charge in charges {
            let Booked { id, .. } = charge.line;
            finding.holds(is_asked || charge.is_given_back(), || format!("shop {shop}: {id} of {amount} stands"));
        }
    }
    finding
}

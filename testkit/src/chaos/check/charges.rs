//! Nobody is charged twice, and nothing is charged that nobody asked for.

use std::collections::{BTreeMap, BTreeSet};

use super::{Finding, asked as wanted, is_live, number, text};
use crate::chaos::evidence::{Booked, Evidence, Shown};

/// What a charge was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Key,
    Token,
    Invoice,
    Link,
    Cycle,
}

impl Purpose {
    fn invariant(self) -> &'static str {
        match self {
            Self::Key => "one charge for each idempotency key",
            Self::Token => "one charge for each payment without a key",
            Self::Invoice => "one charge for each invoice",
            Self::Link => "one charge for each link",
            Self::Cycle => "one charge for each cycle",
        }
    }
}

/// What was asked for with this purpose: the shop and the amount, which no other has. Of a part, half of it.
fn asked(evidence: &Evidence, purpose: Purpose) -> BTreeSet<(usize, i64)> {
    let mut asked = BTreeSet::new();
    for entry in &evidence.requests {
        let body = &entry.body;
        let amount = match (purpose, entry.request.as_str()) {
            (Purpose::Key, "POST /v1/payments") if entry.key.is_some() => body["amount"].as_i64(),
            (Purpose::Token, "POST /v1/payments") if entry.key.is_none() => body["amount"].as_i64(),
            (Purpose::Invoice, "POST /v1/invoices") | (Purpose::Link, "POST /v1/payment_links") => {
                body["amount"].as_i64()
            }
            (Purpose::Cycle, "POST /v1/plans") => body["amount"].as_i64(),
            (Purpose::Cycle, "POST /v1/recurring_invoices") => body["template"]["items"][0]["unitAmount"].as_i64(),
            _ => None,
        };
        asked.extend(
            amount.map(|amount| (entry.shop, if body["paymentToken"] == "tok_partial" { amount / 2 } else { amount })),
        );
    }
    asked
}

/// Approved charges by shop and amount.
fn approved(evidence: &Evidence) -> BTreeMap<(usize, i64), Vec<&Booked>> {
    let mut by_amount: BTreeMap<_, Vec<&Booked>> = BTreeMap::new();
    for line in evidence.ledger.iter().filter(|line| line.is_charge() && line.approved) {
        by_amount.entry((line.shop, line.amount)).or_default().push(line);
    }
    by_amount
}

/// Of what is asked for once, one charge at most was approved and not voided. Of a cycle's amount as many as it has invoices.
pub(super) fn at_most_one(evidence: &Evidence, purpose: Purpose) -> Finding {
    let mut finding = Finding::of(purpose.invariant());
    let approved = approved(evidence);
    for (shop, amount) in asked(evidence, purpose) {
        // A page may add to it.
        let sums = match purpose {
            Purpose::Invoice | Purpose::Link => wanted::sums(evidence, shop, amount),
            Purpose::Key | Purpose::Token | Purpose::Cycle => vec![amount],
        };
        let lines: Vec<&&Booked> = sums.iter().filter_map(|sum| approved.get(&(shop, *sum))).flatten().collect();
        let live = lines.iter().filter(|line| !line.voided).count();
        let most = match purpose {
            Purpose::Cycle => evidence.shown[shop].invoices.iter().filter(|i| number(i, "amount") == amount).count(),
            Purpose::Key | Purpose::Token | Purpose::Invoice | Purpose::Link => 1,
        };
        finding.holds(live <= most, || {
            let ids: Vec<_> = lines.iter().map(|line| format!("{} ({})", line.id, line.reference)).collect();
            format!("shop {shop}, amount {amount}: {live} charges: {}", ids.join(", "))
        });
    }
    finding
}

/// A reference is charged once.
pub(super) fn one_reference(evidence: &Evidence) -> Finding {
    let mut finding = Finding::of("one charge for each reference at a provider");
    let mut seen: BTreeMap<(usize, &str), &str> = BTreeMap::new();
    for line in evidence.ledger.iter().filter(|line| line.is_charge() && line.approved) {
        let first = seen.insert((line.shop, &line.reference), &line.id);
        finding.holds(first.is_none() && !line.reference.is_empty(), || {
            format!("{}: {} and {}", line.reference, first.unwrap_or("no reference"), line.id)
        });
    }
    finding
}

/// Each approved charge is a payment of this amount and currency, and each such payment is an approved charge.
pub(super) fn ledger_and_payments(evidence: &Evidence) -> Finding {
    let mut finding = Finding::of("each charge is one payment, and each payment one charge");
    // (in the ledger, not voided there; payments with money, those given back, those of which nobody knows)
    let mut sums: BTreeMap<(usize, i64, String), [u64; 5]> = BTreeMap::new();
    // What nobody has asked for is asked of by itself.
    let amounts = wanted::amounts(evidence);
    let failed = failed(evidence);
    let of = |line: &&Booked| line.is_charge() && line.approved && amounts.contains(&(line.shop, line.amount));
    for line in evidence.ledger.iter().filter(of) {
        if failed.contains(&(line.shop, line.amount)) && evidence.waits_for_a_person(line) {
            finding.apart += 1;
            continue;
        }
        let sum = sums.entry((line.shop, line.amount, line.currency.clone())).or_default();
        sum[0] += 1;
        sum[1] += u64::from(!line.voided);
    }
    let in_part = evidence.requests.iter().filter(|entry| entry.body["paymentToken"] == "tok_partial");
    let parts: BTreeSet<_> = in_part.map(|entry| (entry.shop, number(&entry.body, "amount"))).collect();
    for (shop, shown) in evidence.shown.iter().enumerate() {
        for payment in &shown.payments {
            let status = text(payment, "status");
            let place = match status {
                _ if is_live(payment) => 2,
                "cancelled" | "expired" => 3,
                "processing" | "requires_action" => 4,
                _ => continue,
            };
            // Of which nobody knows yet that the issuer approved a part.
            let amount = number(payment, "amount");
            let amount = if place == 4 && parts.contains(&(shop, amount)) { amount / 2 } else { amount };
            let key = (shop, amount, text(payment, "currency").to_owned());
            sums.entry(key).or_default()[place] += 1;
        }
    }
    for ((shop, amount, currency), [booked, live, paid, back, unknown]) in sums {
        let pending = |p: &&serde_json::Value| number(p, "amount") == amount && p.get("pendingOperation").is_some();
        let in_doubt = evidence.shown[shop].payments.iter().filter(pending).count() as u64;
        finding.apart += unknown + in_doubt;
        let all = (paid + back..=paid + back + unknown).contains(&booked);
        let left = live + in_doubt >= paid && live <= paid + back + unknown;
        let undone = back == 0 || in_doubt > 0 || live <= paid + unknown + expired(evidence, shop, amount);
        finding.holds(all && left && undone, || {
            format!("shop {shop}, {amount} {currency}: {booked} booked, {live} not voided; {paid} paid, {back} given back, {unknown} unknown")
        });
    }
    finding
}

/// Amounts of payments that have failed, and the halves of them that an issuer may have approved.
pub(super) fn failed(evidence: &Evidence) -> BTreeSet<(usize, i64)> {
    let of = |(shop, shown): (usize, &Shown)| {
        let failed = shown.payments.iter().filter(|payment| text(payment, "status") == "failed");
        failed.flat_map(|payment| [1, 2].map(|part| (shop, number(payment, "amount") / part))).collect::<Vec<_>>()
    };
    evidence.shown.iter().enumerate().flat_map(of).collect()
}

/// A part that had been taken and went back as a refund, or an authorization that ran out, is not voided in the ledger.
fn expired(evidence: &Evidence, shop: usize, amount: i64) -> u64 {
    let of = evidence.shown[shop]
        .payments
        .iter()
        .filter(|p| number(p, "amount") == amount && text(p, "status") == "expired");
    of.count() as u64
}

/// Who was told 5xx, every time, was not charged.
pub(super) fn refused_did_nothing(evidence: &Evidence) -> Finding {
    let mut finding = Finding::of("a payment that was refused charged nothing");
    let mut by_amount: BTreeMap<(usize, i64), (bool, i64)> = BTreeMap::new();
    for entry in evidence.requests.iter().filter(|entry| entry.request == "POST /v1/payments") {
        let amount = number(&entry.body, "amount");
        let charged = if entry.body["paymentToken"] == "tok_partial" { amount / 2 } else { amount };
        let all = by_amount.entry((entry.shop, amount)).or_insert((true, charged));
        all.0 &= entry.status.is_some_and(|status| status >= 400);
    }
    let approved = approved(evidence);
    for ((shop, amount), (refused, charged)) in by_amount {
        if refused {
            let lines = approved.get(&(shop, charged)).map(Vec::as_slice).unwrap_or_default();
            finding.holds(lines.is_empty(), || format!("shop {shop}, amount {amount}: {:?}", lines[0].id));
        }
    }
    finding
}

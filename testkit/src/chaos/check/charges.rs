//! No double charges, and no charges without a request.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    fields::{is_live, number, text},
    finding::Finding,
    requested,
};
use crate::chaos::{
    evidence::{ApiState, Evidence},
    ledger::LedgerLine,
};

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

/// The shop and amount of each request with this purpose; each amount is unique. Half the amount for partial approvals.
fn requested_charges(evidence: &Evidence, purpose: Purpose) -> BTreeSet<(usize, i64)> {
    let mut requested = BTreeSet::new();
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
        requested.extend(
            amount.map(|amount| (entry.shop, if body["paymentToken"] == "tok_partial" { amount / 2 } else { amount })),
        );
    }
    requested
}

/// Approved charges by shop and amount.
fn approved(evidence: &Evidence) -> BTreeMap<(usize, i64), Vec<&LedgerLine>> {
    let mut by_amount: BTreeMap<_, Vec<&LedgerLine>> = BTreeMap::new();
    for line in evidence.ledger.iter().filter(|line| line.is_charge() && line.approved) {
        by_amount.entry((line.shop, line.amount)).or_default().push(line);
    }
    by_amount
}

/// A request has at most one charge that was approved and not voided; a cycle's amount as many as it has invoices.
pub(super) fn at_most_one(evidence: &Evidence, purpose: Purpose) -> Finding {
    let mut finding = Finding::new(purpose.invariant());
    let approved = approved(evidence);
    for (shop, amount) in requested_charges(evidence, purpose) {
        // A page may add modifiers.
        let totals = match purpose {
            Purpose::Invoice | Purpose::Link => requested::totals(evidence, shop, amount),
            Purpose::Key | Purpose::Token | Purpose::Cycle => vec![amount],
        };
        let lines: Vec<&&LedgerLine> =
            totals.iter().filter_map(|total| approved.get(&(shop, *total))).flatten().collect();
        let live = lines.iter().filter(|line| !line.voided).count();
        let limit = match purpose {
            Purpose::Cycle => {
                evidence.api_states[shop].invoices.iter().filter(|i| number(i, "amount") == amount).count()
            }
            Purpose::Key | Purpose::Token | Purpose::Invoice | Purpose::Link => 1,
        };
        finding.check(live <= limit, || {
            let ids: Vec<_> = lines.iter().map(|line| format!("{} ({})", line.id, line.reference)).collect();
            format!("shop {shop}, amount {amount}: {live} charges: {}", ids.join(", "))
        });
    }
    finding
}

/// Each reference is charged once.
pub(super) fn one_charge_per_reference(evidence: &Evidence) -> Finding {
    let mut finding = Finding::new("one charge for each reference at a provider");
    let mut seen: BTreeMap<(usize, &str), &str> = BTreeMap::new();
    for line in evidence.ledger.iter().filter(|line| line.is_charge() && line.approved) {
        let first = seen.insert((line.shop, &line.reference), &line.id);
        finding.check(first.is_none() && !line.reference.is_empty(), || {
            format!("{}: {} and {}", line.reference, first.unwrap_or("no reference"), line.id)
        });
    }
    finding
}

/// Each approved charge matches a payment with the same amount and currency, and each such payment an approved charge.
pub(super) fn ledger_matches_payments(evidence: &Evidence) -> Finding {
    let mut finding = Finding::new("each charge belongs to one payment, and each payment has one charge");
    // (charges in the ledger, those not voided; payments with money, those reversed, those with an unknown outcome)
    let mut sums: BTreeMap<(usize, i64, String), [u64; 5]> = BTreeMap::new();
    // Amounts without a request are checked by `unrequested_totals`.
    let amounts = requested::amounts(evidence);
    let failed = failed(evidence);
    let is_requested =
        |line: &&LedgerLine| line.is_charge() && line.approved && amounts.contains(&(line.shop, line.amount));
    for line in evidence.ledger.iter().filter(is_requested) {
        if failed.contains(&(line.shop, line.amount)) && evidence.needs_manual_review(line) {
            finding.exceptions += 1;
            continue;
        }
        let sum = sums.entry((line.shop, line.amount, line.currency.clone())).or_default();
        sum[0] += 1;
        sum[1] += u64::from(!line.voided);
    }
    let partial_requests = evidence.requests.iter().filter(|entry| entry.body["paymentToken"] == "tok_partial");
    let partial_amounts: BTreeSet<_> =
        partial_requests.map(|entry| (entry.shop, number(&entry.body, "amount"))).collect();
    for (shop, api_state) in evidence.api_states.iter().enumerate() {
        for payment in &api_state.payments {
            let status = text(payment, "status");
            let column = match status {
                _ if is_live(payment) => 2,
                "cancelled" | "expired" => 3,
                "processing" | "requires_action" => 4,
                _ => continue,
            };
            // It may turn out to be a partial approval.
            let amount = number(payment, "amount");
            let amount = if column == 4 && partial_amounts.contains(&(shop, amount)) { amount / 2 } else { amount };
            let key = (shop, amount, text(payment, "currency").to_owned());
            sums.entry(key).or_default()[column] += 1;
        }
    }
    for ((shop, amount, currency), [charges, live, paid, reversed, unknown]) in sums {
        let pending = |p: &&serde_json::Value| number(p, "amount") == amount && p.get("pendingOperation").is_some();
        let pending_operations = evidence.api_states[shop].payments.iter().filter(pending).count() as u64;
        finding.exceptions += unknown + pending_operations;
        let count_matches = (paid + reversed..=paid + reversed + unknown).contains(&charges);
        let live_matches = live + pending_operations >= paid && live <= paid + reversed + unknown;
        let reversed_matches = reversed == 0
            || pending_operations > 0
            || live <= paid + unknown + expired_payments(evidence, shop, amount);
        finding.check(count_matches && live_matches && reversed_matches, || {
            format!("shop {shop}, {amount} {currency}: {charges} charges, {live} not voided; {paid} paid, {reversed} reversed, {unknown} unknown")
        });
    }
    finding
}

/// The amounts of failed payments, and half of them, which may have been partial approvals.
pub(super) fn failed(evidence: &Evidence) -> BTreeSet<(usize, i64)> {
    let failed_amounts = |(shop, api_state): (usize, &ApiState)| {
        let failed = api_state.payments.iter().filter(|payment| text(payment, "status") == "failed");
        failed.flat_map(|payment| [1, 2].map(|part| (shop, number(payment, "amount") / part))).collect::<Vec<_>>()
    };
    evidence.api_states.iter().enumerate().flat_map(failed_amounts).collect()
}

/// The number of expired payments with this amount. Their charges are not voided in the ledger: the captured part was
/// refunded, or the authorization expired.
fn expired_payments(evidence: &Evidence, shop: usize, amount: i64) -> u64 {
    let expired = evidence.api_states[shop]
        .payments
        .iter()
        .filter(|p| number(p, "amount") == amount && text(p, "status") == "expired");
    expired.count() as u64
}

/// A payment for which every response was an error was not charged.
pub(super) fn rejected_payments_are_not_charged(evidence: &Evidence) -> Finding {
    let mut finding = Finding::new("rejected payments charge nothing");
    let mut by_amount: BTreeMap<(usize, i64), (bool, i64)> = BTreeMap::new();
    for entry in evidence.requests.iter().filter(|entry| entry.request == "POST /v1/payments") {
        let amount = number(&entry.body, "amount");
        let charged = if entry.body["paymentToken"] == "tok_partial" { amount / 2 } else { amount };
        let state = by_amount.entry((entry.shop, amount)).or_insert((true, charged));
        state.0 &= entry.status.is_some_and(|status| status >= 400);
    }
    let approved = approved(evidence);
    for ((shop, amount), (rejected, charged)) in by_amount {
        if rejected {
            let lines = approved.get(&(shop, charged)).map(Vec::as_slice).unwrap_or_default();
            finding.check(lines.is_empty(), || format!("shop {shop}, amount {amount}: {:?}", lines[0].id));
        }
    }
    finding
}

//! Accepted work is completed. After the faults nothing waits forever, and nothing has failed without a refusal by the
//! issuer or provider.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    fields::{number, text},
    finding::Finding,
    reconciliation,
    requested::{self, TestClocks},
};
use crate::chaos::{evidence::Evidence, ledger::LedgerLine, time};

/// The last four digits of the card that approves.
const GOOD_CARD: &str = "4242";
/// What fell due in the last milliseconds may still be in progress.
const GRACE_MS: i64 = 5000;
/// Decline codes of failed attempts for which nothing was sent.
const NOT_SENT_CODES: [&str; 4] = ["no_payment_method", "currency_not_supported", "amount_not_supported", "withdrawn"];

/// A due invoice in collection with a good card is paid.
pub(super) fn due_invoices_are_paid(evidence: &Evidence) -> Finding {
    let mut finding = Finding::new("a due invoice with a good card is paid");
    let (clocks, cards) = (TestClocks::of(evidence), requested::cards(evidence));
    let invoices = requested::invoices(evidence);
    // With a provider that charges a different total nothing can be paid.
    let charged_with_fee: BTreeSet<(usize, i64)> =
        evidence.ledger.iter().filter(|line| line.fee > 0).map(|line| (line.shop, line.amount - line.fee)).collect();
    for (shop, api_state) in evidence.api_states.iter().enumerate() {
        let due_before = clocks.latest(shop, evidence.now) - GRACE_MS;
        let subscribed: BTreeMap<&str, &str> =
            api_state.subscriptions.iter().map(|sub| (text(sub, "id"), text(sub, "paymentMethodId"))).collect();
        for invoice in &api_state.invoices {
            let id = text(invoice, "id");
            let card = match (invoices.get(id), subscribed.get(text(invoice, "subscriptionId"))) {
                // Scheduled exactly once and not taken out of collection.
                (Some(requested), _) => match requested.schedules.as_slice() {
                    [(at, card, true)] if !requested.withdrawn && *at <= due_before => card.as_str(),
                    _ => continue,
                },
                (None, Some(card)) => {
                    let issued = time::parse_timestamp(text(invoice, "issuedAt")).unwrap_or(i64::MAX);
                    if issued <= due_before { card } else { continue }
                }
                (None, None) => continue,
            };
            if cards.get(card).is_none_or(|last4| last4 != GOOD_CARD) {
                continue;
            }
            let is_unknown = |payment: &&serde_json::Value| {
                text(payment, "invoiceId") == id && text(payment, "status") == "processing"
            };
            let unpayable = charged_with_fee.contains(&(shop, number(invoice, "amount")));
            let unknown =
                evidence.class_c.contains(&shop) && api_state.payments.iter().any(|payment| is_unknown(&payment));
            if unknown || unpayable {
                finding.exceptions += 1;
                continue;
            }
            finding.check(text(invoice, "status") == "paid", || {
                format!("shop {shop}: {id} is {}, next attempt {}", text(invoice, "status"), invoice["nextAttemptAt"])
            });
        }
    }
    finding
}

/// For each failed attempt, the issuer declined or approved only a part, or the provider reported that it was
/// interrupted before it did anything.
pub(super) fn failed_attempts_were_declined(evidence: &Evidence) -> Finding {
    let mut finding = Finding::new("an attempt fails only if the issuer declined");
    let mut declined: BTreeMap<(usize, i64), usize> = BTreeMap::new();
    let mut partial: BTreeMap<(usize, i64), usize> = BTreeMap::new();
    for line in evidence.ledger.iter().filter(|line| line.is_charge()) {
        // An attempt with a different total fails and its charge is reversed, which `unrequested_totals` checks.
        let count = if line.approved && line.fee == 0 { &mut partial } else { &mut declined };
        *count.entry((line.shop, line.amount - line.fee)).or_default() += 1;
    }
    // Invoices with the same amount, such as those of a subscription, are counted together.
    let mut failed: BTreeMap<(usize, i64), Vec<String>> = BTreeMap::new();
    for (shop, api_state) in evidence.api_states.iter().enumerate() {
        for (id, attempts) in &api_state.attempts {
            for attempt in attempts {
                let code = text(attempt, "declineCode");
                if text(attempt, "status") == "failed" && !NOT_SENT_CODES.contains(&code) {
                    let failures = failed.entry((shop, number(attempt, "amount"))).or_default();
                    failures.push(format!("{id} #{} ({code})", attempt["number"]));
                }
            }
        }
    }
    for ((shop, amount), attempts) in failed {
        let count = |counts: &BTreeMap<(usize, i64), usize>, amount| counts.get(&(shop, amount)).copied().unwrap_or(0);
        let expected = count(&declined, amount) + count(&partial, amount / 2);
        finding.check(attempts.len() <= expected, || {
            format!("shop {shop}, {amount}: declined {expected} times, but failed: {}", attempts.join(", "))
        });
    }
    finding
}

/// An accepted refund is made unless the provider could not make it, and required reversals are made.
pub(super) fn refunds_and_reversals_are_made(evidence: &Evidence) -> Finding {
    let mut finding = Finding::new("every accepted refund and every required reversal is made");
    let charges = reconciliation::charges(evidence);
    for (shop, api_state) in evidence.api_states.iter().enumerate() {
        for payment in &api_state.payments {
            let id = text(payment, "id");
            let payment_charges: Vec<&reconciliation::Charge<'_>> =
                charges.get(&(shop, number(payment, "amount"))).into_iter().flatten().collect();
            let refunds = payment["refunds"].as_array().map(Vec::as_slice).unwrap_or_default();
            let unknown = evidence.class_c.contains(&shop)
                && (payment.get("pendingOperation").is_some() || text(payment, "status") == "processing");
            for refund in refunds {
                let status = text(refund, "status");
                // An amount that is still refundable at the end was refundable throughout.
                let is_refundable = payment_charges
                    .iter()
                    .any(|c| !c.is_voided() && c.captured() - c.refunded() >= number(refund, "amount"));
                finding.exceptions += u64::from(unknown && status == "pending");
                let is_made = status == "succeeded" || (unknown && status == "pending");
                finding.check(is_made || (status == "failed" && !is_refundable), || {
                    format!("{} of {id} is {status}, although the provider could make it", text(refund, "id"))
                });
            }
            let is_partial = number(payment, "amount") < number(payment, "amountRequested");
            let pays_object = payment["invoiceId"].is_string() || payment["paymentLinkId"].is_string();
            if is_partial && pays_object && !unknown {
                let is_reversed = payment_charges.iter().all(|charge| charge.is_fully_reversed());
                finding.check(is_reversed, || format!("{id} is a partial approval that was not reversed"));
            }
        }
    }
    finding
}

/// A charge with a total that was never requested is reversed.
pub(super) fn unrequested_totals(evidence: &Evidence) -> Finding {
    let mut finding = Finding::new("a total that was never requested is reversed");
    let requested = requested::amounts(evidence);
    for ((shop, amount), charges) in reconciliation::charges(evidence) {
        let is_requested = requested.contains(&(shop, amount));
        for charge in charges {
            let LedgerLine { id, .. } = charge.line;
            finding.check(is_requested || charge.is_fully_reversed(), || {
                format!("shop {shop}: {id} of {amount} was not reversed")
            });
        }
    }
    finding
}

/// All work is done.
pub(super) fn no_work_left(evidence: &Evidence) -> Finding {
    let mut finding = Finding::new("no work is left after the quiet period");
    for (what, count) in &evidence.unfinished {
        finding.check(*count == 0, || format!("{count} {what}"));
    }
    finding
}

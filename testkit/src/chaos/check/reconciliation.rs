//! Reconciles our records with the providers', payment by payment in both directions: captured, refunded and voided
//! amounts.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    charges::failed,
    fields::{is_live, number, text},
    finding::Finding,
    requested,
};
use crate::chaos::{evidence::Evidence, gateway_report::ReportLine, ledger::LedgerLine};

/// An approved charge in a provider's records with its follow-up operations.
#[derive(Debug)]
pub(super) struct Charge<'a> {
    pub(super) line: &'a LedgerLine,
    children: Vec<&'a LedgerLine>,
}

impl Charge<'_> {
    fn sum(&self, kind: &str) -> i64 {
        self.children.iter().filter(|line| line.kind == kind).map(|line| line.amount).sum()
    }

    pub(super) fn is_voided(&self) -> bool {
        self.line.voided || self.children.iter().any(|line| line.kind == "void")
    }

    pub(super) fn captured(&self) -> i64 {
        if self.line.kind == "sale" { self.line.amount } else { self.sum("capture") }
    }

    pub(super) fn refunded(&self) -> i64 {
        self.sum("refund")
    }

    /// Whether all of it was voided or refunded.
    pub(super) fn is_fully_reversed(&self) -> bool {
        self.is_voided() || (self.captured() > 0 && self.refunded() == self.captured())
    }

    fn position(&self) -> Position {
        let (voided, line) = (self.is_voided(), self.line);
        let [captured, refunded] = if voided { [0, 0] } else { [self.captured(), self.refunded()] };
        Position { amount: line.amount, currency: line.currency.clone(), captured, refunded, voided }
    }
}

/// All approved charges by shop and amount.
pub(super) fn charges(evidence: &Evidence) -> BTreeMap<(usize, i64), Vec<Charge<'_>>> {
    let mut children: BTreeMap<(usize, &str), Vec<&LedgerLine>> = BTreeMap::new();
    for line in evidence.ledger.iter().filter(|line| line.approved) {
        if let Some(parent) = &line.parent {
            children.entry((line.shop, parent)).or_default().push(line);
        }
    }
    let mut charges: BTreeMap<_, Vec<Charge<'_>>> = BTreeMap::new();
    for line in evidence.ledger.iter().filter(|line| line.is_charge() && line.approved) {
        let children = children.remove(&(line.shop, line.id.as_str())).unwrap_or_default();
        charges.entry((line.shop, line.amount)).or_default().push(Charge { line, children });
    }
    charges
}

/// The state of one payment's money.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Position {
    amount: i64,
    currency: String,
    captured: i64,
    refunded: i64,
    voided: bool,
}

/// The positions in our records with their counts, and the amounts of payments without a final outcome.
fn our_positions(payments: &[Value]) -> (BTreeMap<Position, i64>, Vec<i64>) {
    let (mut positions, mut unknown) = (BTreeMap::new(), Vec::new());
    for payment in payments {
        let (status, amount) = (text(payment, "status"), number(payment, "amount"));
        let mut refunds = payment["refunds"].as_array().into_iter().flatten();
        let pending = refunds.any(|refund| text(refund, "status") == "pending");
        if ["processing", "requires_action"].contains(&status) || payment.get("pendingOperation").is_some() || pending {
            // It may turn out to be a partial approval.
            unknown.extend([amount, amount / 2]);
        } else if is_live(payment) || ["cancelled", "expired"].contains(&status) {
            let voided = status == "cancelled";
            let [captured, refunded] = ["amountCaptured", "amountRefunded"].map(|field| number(payment, field));
            let [captured, refunded] = if voided { [0, 0] } else { [captured, refunded] };
            let currency = text(payment, "currency").to_owned();
            *positions.entry(Position { amount, currency, captured, refunded, voided }).or_default() += 1;
        }
    }
    (positions, unknown)
}

/// The captured, refunded and voided amounts of each payment agree between the provider's records and the API.
pub(super) fn records_agree(evidence: &Evidence) -> Finding {
    let mut finding = Finding::new("our records and the providers' agree on each payment, in both directions");
    let (requested_amounts, charges) = (requested::amounts(evidence), charges(evidence));
    let failed = failed(evidence);
    for (shop, api_state) in evidence.api_states.iter().enumerate() {
        let (ours, unknown) = our_positions(&api_state.payments);
        finding.exceptions += unknown.len() as u64 / 2;
        let is_compared = |amount: i64| requested_amounts.contains(&(shop, amount)) && !unknown.contains(&amount);
        let theirs = |filter: &dyn Fn(&LedgerLine) -> bool| {
            let of_shop = charges.range((shop, 0)..(shop + 1, 0)).flat_map(|(_, charges)| charges);
            let needs_review =
                |line: &LedgerLine| failed.contains(&(shop, line.amount)) && evidence.needs_manual_review(line);
            of_shop
                .filter(|charge| filter(charge.line) && !needs_review(charge.line))
                .map(Charge::position)
                .collect::<Vec<_>>()
        };
        compare(&mut finding, shop, "records", theirs(&|_| true), &ours, &is_compared);
        // The gateway's report is independent of our tables. Charges at the mock are added from its ledger.
        if let Some(report) = evidence.gateway_reports.get(&shop) {
            let combined = [positions(report), theirs(&|line| !line.at_gateway)].concat();
            compare(&mut finding, shop, "report", combined, &ours, &is_compared);
        }
    }
    finding
}

fn compare(
    finding: &mut Finding,
    shop: usize,
    what: &str,
    theirs: Vec<Position>,
    ours: &BTreeMap<Position, i64>,
    is_compared: &dyn Fn(i64) -> bool,
) {
    let mut counts_by_position: BTreeMap<Position, [i64; 2]> = BTreeMap::new();
    for position in theirs {
        counts_by_position.entry(position).or_default()[0] += 1;
    }
    for (position, count) in ours {
        counts_by_position.entry(position.clone()).or_default()[1] += count;
    }
    for (position, [theirs, ours]) in counts_by_position.iter().filter(|(position, _)| is_compared(position.amount)) {
        finding.check(theirs == ours, || {
            let Position { amount, currency, captured, refunded, voided } = position;
            let state = format!("captured {captured}, refunded {refunded}, voided: {voided}");
            format!("shop {shop}, {amount} {currency}, {state}: {theirs} in the {what}, {ours} in the API")
        });
    }
}

/// The positions that result from the lines of a report.
fn positions(report: &[ReportLine]) -> Vec<Position> {
    let mut by_charge: BTreeMap<&str, (i64, i64, bool)> = BTreeMap::new();
    for line in report.iter().filter(|line| line.success && !line.parent.is_empty()) {
        let (captured, refunded, voided) = by_charge.entry(&line.parent).or_default();
        match line.kind.as_str() {
            "CAPTURE" => *captured += line.total,
            "REFUND" => *refunded += line.total,
            _ => *voided = true,
        }
    }
    let charges = report.iter().filter(|line| line.success && line.parent.is_empty());
    charges
        .map(|line| {
            let (captured, refunded, voided) = by_charge.get(line.id.as_str()).copied().unwrap_or_default();
            let captured = if line.kind == "SALE" { line.total } else { captured };
            let [captured, refunded] = if voided { [0, 0] } else { [captured, refunded] };
            Position { amount: line.total, currency: line.currency.clone(), captured, refunded, voided }
        })
        .collect()
}

/// Each capture, void and refund at the gateway has a unique reference.
pub(super) fn child_references_are_unique(evidence: &Evidence) -> Finding {
    let mut finding = Finding::new("each capture, void and refund at the gateway has a unique reference");
    for (shop, report) in &evidence.gateway_reports {
        let mut seen: BTreeMap<&str, &str> = BTreeMap::new();
        for line in report.iter().filter(|line| !line.parent.is_empty()) {
            let first = seen.insert(&line.child_reference, &line.id);
            finding.check(!line.child_reference.is_empty() && first.is_none(), || {
                format!("shop {shop}: {} {}: {:?}, also used by {first:?}", line.kind, line.id, line.child_reference)
            });
        }
    }
    finding
}

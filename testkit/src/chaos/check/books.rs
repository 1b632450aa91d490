//! Our books and the providers', payment by payment and both ways: what was captured, refunded and voided.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Finding, asked, charges::failed, is_live, number, text};
use crate::chaos::{
    evidence::{Booked, Evidence},
    statement::Reported,
};

/// An approved charge in a provider's records, with all that followed it.
#[derive(Debug)]
pub(super) struct Charge<'a> {
    pub(super) line: &'a Booked,
    children: Vec<&'a Booked>,
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

    /// Nothing of it is left with the merchant.
    pub(super) fn is_given_back(&self) -> bool {
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
    let mut children: BTreeMap<(usize, &str), Vec<&Booked>> = BTreeMap::new();
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

/// What has become of one payment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Position {
    amount: i64,
    currency: String,
    captured: i64,
    refunded: i64,
    voided: bool,
}

/// What our books show, how often, and the amounts of which they know no end yet.
fn shown(payments: &[Value]) -> (BTreeMap<Position, i64>, Vec<i64>) {
    let (mut positions, mut unknown) = (BTreeMap::new(), Vec::new());
    for payment in payments {
        let (status, amount) = (text(payment, "status"), number(payment, "amount"));
        let mut refunds = payment["refunds"].as_array().into_iter().flatten();
        let pending = refunds.any(|refund| text(refund, "status") == "pending");
        if ["processing", "requires_action"].contains(&status) || payment.get("pendingOperation").is_some() || pending {
            // Of a part that was approved nobody may know yet.
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

/// Captured, refunded and voided of each payment, as the provider's own records have them and as the API shows them.
pub(super) fn agree(evidence: &Evidence) -> Finding {
    let mut finding = Finding::of("our books and the providers' agree on each payment, both ways");
    let (asked, charges) = (asked::amounts(evidence), charges(evidence));
    let failed = failed(evidence);
    for (shop, shown_here) in evidence.shown.iter().enumerate() {
        let (ours, unknown) = shown(&shown_here.payments);
        finding.apart += unknown.len() as u64 / 2;
        let counts = |amount: i64| asked.contains(&(shop, amount)) && !unknown.contains(&amount);
        let theirs = |wanted: &dyn Fn(&Booked) -> bool| {
            let of = charges.range((shop, 0)..(shop + 1, 0)).flat_map(|(_, of)| of);
            let waits = |line: &Booked| failed.contains(&(shop, line.amount)) && evidence.waits_for_a_person(line);
            of.filter(|charge| wanted(charge.line) && !waits(charge.line)).map(Charge::position).collect::<Vec<_>>()
        };
        compare(&mut finding, shop, "records", theirs(&|_| true), &ours, &counts);
        // The gateway's report, which is no table of ours; what is on the mock has none.
        if let Some(reported) = evidence.reported.get(&shop) {
            let both = [positions(reported), theirs(&|line| !line.at_gateway)].concat();
            compare(&mut finding, shop, "report", both, &ours, &counts);
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
    counts: &dyn Fn(i64) -> bool,
) {
    let mut both: BTreeMap<Position, [i64; 2]> = BTreeMap::new();
    for position in theirs {
        both.entry(position).or_default()[0] += 1;
    }
    for (position, count) in ours {
        both.entry(position.clone()).or_default()[1] += count;
    }
    for (position, [theirs, ours]) in both.iter().filter(|(position, _)| counts(position.amount)) {
        finding.holds(theirs == ours, || {
            let Position { amount, currency, captured, refunded, voided } = position;
            let state = format!("captured {captured}, refunded {refunded}, voided: {voided}");
            format!("shop {shop}, {amount} {currency}, {state}: {theirs} in the {what}, {ours} with us")
        });
    }
}

/// What the lines of a report come to.
fn positions(reported: &[Reported]) -> Vec<Position> {
    let mut by_charge: BTreeMap<&str, (i64, i64, bool)> = BTreeMap::new();
    for line in reported.iter().filter(|line| line.success && !line.parent.is_empty()) {
        let (captured, refunded, voided) = by_charge.entry(&line.parent).or_default();
        match line.kind.as_str() {
            "CAPTURE" => *captured += line.total,
            "REFUND" => *refunded += line.total,
            _ => *voided = true,
        }
    }
    let charges = reported.iter().filter(|line| line.success && line.parent.is_empty());
    charges
        .map(|line| {
            let (captured, refunded, voided) = by_charge.get(line.id.as_str()).copied().unwrap_or_default();
            let captured = if line.kind == "SALE" { line.total } else { captured };
            let [captured, refunded] = if voided { [0, 0] } else { [captured, refunded] };
            Position { amount: line.total, currency: line.currency.clone(), captured, refunded, voided }
        })
        .collect()
}

/// Each capture, void and refund at the gateway has a reference of its own.
pub(super) fn children_are_named(evidence: &Evidence) -> Finding {
    let mut finding = Finding::of("each capture, void and refund at the gateway has a reference of its own");
    for (shop, reported) in &evidence.reported {
        let mut seen: BTreeMap<&str, &str> = BTreeMap::new();
        for line in reported.iter().filter(|line| !line.parent.is_empty()) {
            let first = seen.insert(&line.child_reference, &line.id);
            finding.holds(!line.child_reference.is_empty() && first.is_none(), || {
                format!("shop {shop}: {} {}: {:?}, like {first:?}", line.kind, line.id, line.child_reference)
            });
        }
    }
    finding
}

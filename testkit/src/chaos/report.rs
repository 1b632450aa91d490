//! The report of a run: a table on the terminal, and JSON in a file.

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use anyhow::Result;
use serde_json::{Value, json};

use super::{
    check::Finding, evidence::Evidence, fault::Fault, fault_log::FaultLog, ledger::LedgerLine, schedule::Plan,
    shop::Shop, upgrade::Observations,
};

/// Violations printed per invariant; the file contains all of them.
const PRINTED_VIOLATIONS: usize = 8;

pub(super) struct Report<'a> {
    pub(super) plan: &'a Plan,
    pub(super) left_out: &'a BTreeMap<Fault, String>,
    pub(super) fault_log: &'a FaultLog,
    /// Not counted in a run on containers.
    pub(super) lost_responses: Option<usize>,
    pub(super) quiet: Duration,
    pub(super) evidence: &'a Evidence,
    pub(super) findings: &'a [Finding],
    pub(super) upgrade: Option<&'a Observations>,
}

impl Report<'_> {
    /// The kinds of faults that were to occur, with the reason if they were left out.
    fn faults(&self) -> impl Iterator<Item = (Fault, &'static str, Option<&String>)> {
        let planned = Fault::ALL.into_iter().filter(move |(fault, _)| self.plan.includes(*fault));
        planned.map(move |(fault, name)| (fault, name, self.left_out.get(&fault)))
    }

    fn count(&self, fault: Fault) -> u64 {
        self.fault_log.counts.get(&fault).copied().unwrap_or(0)
    }

    /// The required events that did not occur, without which the run is inconclusive.
    pub(super) fn missing_coverage(&self) -> Vec<String> {
        let mut missing = Vec::new();
        for (fault, name, left_out) in self.faults() {
            if left_out.is_none() && self.count(fault) == 0 {
                missing.push(format!("never fired: {name}"));
            }
        }
        let counted = [
            ("charges with a lost response", self.lost_responses.unwrap_or(0), self.plan.minimums.lost_responses),
            ("late sends", self.fault_log.late_references.len(), self.plan.minimums.late_sends),
        ];
        for (name, count, minimum) in counted {
            if count < minimum {
                missing.push(format!("{name}: {count}, at least {minimum} required"));
            }
        }
        // Every kind of operation at the gateway, and a payment on a page with modifiers.
        for kind in ["sale", "authorize", "capture", "void", "refund"] {
            let matches = |line: &&LedgerLine| line.at_gateway && line.approved && line.kind == kind;
            if !self.evidence.ledger.iter().any(|line| matches(&line)) {
                missing.push(format!("never approved by the gateway: {kind}"));
            }
        }
        let mut payments = self.evidence.api_states.iter().flat_map(|api_state| &api_state.payments);
        if !payments.any(|payment| payment["amountTip"].is_i64()) {
            missing.push("never paid: a total with a tip".to_owned());
        }
        for finding in self.findings.iter().filter(|finding| finding.checked == 0) {
            missing.push(format!("never checked: {}", finding.invariant));
        }
        missing
    }

    pub(super) fn violations(&self) -> usize {
        self.findings.iter().map(|finding| finding.violations.len()).sum()
    }

    pub(super) fn print(&self) {
        println!("\nfault                                            fired");
        for (fault, name, left_out) in self.faults() {
            match left_out {
                Some(reason) => println!("{name:<48} left out: {reason}"),
                None => println!("{name:<48} {:>5}", self.count(fault)),
            }
        }
        if let Some(lost_responses) = self.lost_responses {
            println!("charges with a lost response                     {lost_responses:>5}");
            println!("late sends of workers stopped beyond their lease {:>5}", self.fault_log.late_references.len());
        }
        println!(
            "\ninvariant                                                                 checked exempt  violations"
        );
        for finding in self.findings {
            let Finding { invariant, checked, violations, exceptions } = finding;
            let width = 74 - invariant.chars().count().min(73);
            println!("{invariant}{}{checked:>7} {exceptions:>6} {:>11}", " ".repeat(width), violations.len());
        }
        for finding in self.findings.iter().filter(|finding| !finding.violations.is_empty()) {
            println!("\n{}:", finding.invariant);
            finding.violations.iter().take(PRINTED_VIOLATIONS).for_each(|violation| println!("  {violation}"));
        }
        for missing in self.missing_coverage().iter().filter(|_| !self.fault_log.counts.is_empty()) {
            println!("\nthis run is inconclusive: {missing}");
        }
        if let Some(upgrade) = self.upgrade {
            println!(
                "\nthe slowest response during the migrations took {} ms",
                upgrade.slowest(&self.evidence.requests)
            );
        }
        let payments: usize = self.evidence.api_states.iter().map(|api_state| api_state.payments.len()).sum();
        println!(
            "\n{} requests, {payments} payments, {} ledger lines, {} deliveries; quiet after {:.0} s; seed {}: {} violations",
            self.evidence.requests.len(),
            self.evidence.ledger.len(),
            self.evidence.deliveries.len(),
            self.quiet.as_secs_f64(),
            self.plan.seed,
            self.violations()
        );
    }

    pub(super) fn write(&self, path: &Path, shops: &[Shop]) -> Result<()> {
        let faults: BTreeMap<&str, u64> = self
            .faults()
            .filter(|(.., left_out)| left_out.is_none())
            .map(|(fault, name, _)| (name, self.count(fault)))
            .collect();
        let left_out: BTreeMap<&str, &String> =
            self.left_out.iter().map(|(fault, reason)| (fault.name(), reason)).collect();
        let invariants: Vec<Value> = self.findings.iter().map(|finding| json!({
            "invariant": finding.invariant, "checked": finding.checked, "exceptions": finding.exceptions, "violations": finding.violations,
        })).collect();
        let report = json!({
            "seed": self.plan.seed, "load_seconds": self.plan.load.as_secs(), "quiet_seconds": self.quiet.as_secs(),
            "faults": faults, "left_out": left_out, "timeline": self.fault_log.timeline, "charges_with_lost_response": self.lost_responses,
            "late_sends": self.fault_log.late_references, "invariants": invariants, "missing_coverage": self.missing_coverage(),
            "requests": self.evidence.requests.len(), "ledger_lines": self.evidence.ledger.len(),
            "deliveries": self.evidence.deliveries.len(), "unfinished": self.evidence.unfinished,
            "upgrade": self.upgrade.map(|observations| json!({
                "timeline": observations.timeline, "slowest_response_during_migrations_ms": observations.slowest(&self.evidence.requests),
            })),
            "accounts": shops.iter().map(|shop| json!({"account": shop.account.id, "at": shop.kind.description()})).collect::<Vec<_>>(),
        });
        fs::write(path, format!("{report:#}\n"))?;
        Ok(())
    }
}

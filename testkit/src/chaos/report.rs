//! The report: a table for people, JSON for programs.

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use anyhow::Result;
use serde_json::{Value, json};

use super::{
    check::Finding,
    evidence::{Booked, Evidence},
    faults::Fired,
    schedule::{Fault, Plan},
    upgrade::Seen,
    world::{World, described},
};

/// Of each invariant at most so many violations are printed; all stand in the file.
const PRINTED: usize = 8;

/// What a run must have seen to count.
#[derive(Clone, Copy, Debug)]
pub(super) struct Least {
    pub(super) lost: usize,
    pub(super) late: usize,
}

/// Everything about a run.
pub(super) struct Report<'a> {
    pub(super) plan: &'a Plan,
    pub(super) least: Least,
    pub(super) left_out: &'a BTreeMap<Fault, String>,
    pub(super) fired: &'a Fired,
    pub(super) lost: usize,
    pub(super) quiet: Duration,
    pub(super) evidence: &'a Evidence,
    pub(super) findings: &'a [Finding],
    pub(super) upgraded: Option<&'a Seen>,
}

impl Report<'_> {
    /// What this run did not see and had to, so that it proves nothing.
    pub(super) fn vacuity(&self) -> Vec<String> {
        let mut missing = Vec::new();
        for (fault, name) in Fault::ALL {
            if !self.left_out.contains_key(&fault) && self.fired.counts.get(&fault).copied().unwrap_or(0) == 0 {
                missing.push(format!("never fired: {name}"));
            }
        }
        let counted = [
            ("charged, and the answer lost", self.lost, self.least.lost),
            ("sent late", self.fired.late.len(), self.least.late),
        ];
        for (name, count, least) in counted {
            if count < least {
                missing.push(format!("{name}: {count}, at least {least} wanted"));
            }
        }
        // Of every kind of money's way at the gateway, and of payments on pages that add to an amount.
        for kind in ["sale", "authorize", "capture", "void", "refund"] {
            let of = |line: &&Booked| line.at_gateway && line.approved && line.kind == kind;
            if !self.evidence.ledger.iter().any(|line| of(&line)) {
                missing.push(format!("never approved by the gateway: {kind}"));
            }
        }
        let mut payments = self.evidence.shown.iter().flat_map(|shown| &shown.payments);
        if !payments.any(|payment| payment["amountTip"].is_i64()) {
            missing.push("never paid: a sum with a tip".to_owned());
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
        for (fault, name) in Fault::ALL {
            match self.left_out.get(&fault) {
                Some(why) => println!("{name:<48} left out: {why}"),
                None => println!("{name:<48} {:>5}", self.fired.counts.get(&fault).copied().unwrap_or(0)),
            }
        }
        println!("charged, and the answer lost                     {:>5}", self.lost);
        println!("sent late by a worker stopped beyond its lease   {:>5}", self.fired.late.len());
        println!(
            "\ninvariant                                                                 checked  apart  violations"
        );
        for finding in self.findings {
            let Finding { invariant, checked, violations, apart } = finding;
            let width = 74 - invariant.chars().count().min(73);
            println!("{invariant}{}{checked:>7} {apart:>6} {:>11}", " ".repeat(width), violations.len());
        }
        for finding in self.findings.iter().filter(|finding| !finding.violations.is_empty()) {
            println!("\n{}:", finding.invariant);
            finding.violations.iter().take(PRINTED).for_each(|violation| println!("  {violation}"));
        }
        for missing in self.vacuity().iter().filter(|_| !self.fired.counts.is_empty()) {
            println!("\nthis run proves nothing: {missing}");
        }
        if let Some(upgraded) = self.upgraded {
            println!(
                "\nthe slowest answer beside the migrations took {} ms",
                upgraded.slowest(&self.evidence.requests)
            );
        }
        let payments: usize = self.evidence.shown.iter().map(|shown| shown.payments.len()).sum();
        println!(
            "\n{} requests, {payments} payments, {} lines in the ledgers, {} deliveries; quiet after {:.0} s; seed {}: {} violations",
            self.evidence.requests.len(),
            self.evidence.ledger.len(),
            self.evidence.received.len(),
            self.quiet.as_secs_f64(),
            self.plan.seed,
            self.violations()
        );
    }

    pub(super) fn write(&self, path: &Path, world: &World) -> Result<()> {
        let faults: BTreeMap<&str, u64> = Fault::ALL
            .iter()
            .filter(|(fault, _)| !self.left_out.contains_key(fault))
            .map(|(fault, name)| (*name, self.fired.counts.get(fault).copied().unwrap_or(0)))
            .collect();
        let left_out: BTreeMap<&str, &String> = self.left_out.iter().map(|(fault, why)| (fault.name(), why)).collect();
        let invariants: Vec<Value> = self.findings.iter().map(|finding| json!({
            "invariant": finding.invariant, "checked": finding.checked, "apart": finding.apart, "violations": finding.violations,
        })).collect();
        let report = json!({
            "seed": self.plan.seed, "load_seconds": self.plan.load.as_secs(), "quiet_seconds": self.quiet.as_secs(),
            "faults": faults, "left_out": left_out, "timeline": self.fired.told, "charged_and_answer_lost": self.lost,
            "sent_late": self.fired.late, "invariants": invariants, "vacuity": self.vacuity(),
            "requests": self.evidence.requests.len(), "ledger_lines": self.evidence.ledger.len(),
            "deliveries": self.evidence.received.len(), "left": self.evidence.left,
            "upgrade": self.upgraded.map(|seen| json!({
                "timeline": seen.told, "slowest_beside_migrations_ms": seen.slowest(&self.evidence.requests),
            })),
            "accounts": world.shops.iter().map(|shop| json!({"account": shop.account.id, "at": described(shop.line)})).collect::<Vec<_>>(),
        });
        fs::write(path, format!("{report:#}\n"))?;
        Ok(())
    }
}

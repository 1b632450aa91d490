//! The surcharge, tax and tip of payment pages, computed from the definition in docs/billing.md alone.

use serde_json::{Value, json};

/// Surcharge and tax in basis points of the amount, and an optional fixed tip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Modifiers {
    surcharge: i64,
    tax: i64,
    tip: i64,
}

impl Modifiers {
    /// Values with which no total of a run equals, or equals half of, another payment's amount or total.
    pub(super) const FOR_A_RUN: Self = Self { surcharge: 3000, tax: 825, tip: 1_100_000 };

    /// The value of `ctl accounts set --modifiers`.
    pub(super) fn json(self) -> Value {
        json!({
            "surcharge": {"type": "percent", "value": self.surcharge},
            "tax": {"type": "percent", "value": self.tax},
            "tip": {"type": "fixed", "value": self.tip},
        })
    }

    /// The totals for an amount, with the tip and without it.
    pub(super) fn totals(self, amount: i64) -> [i64; 2] {
        let part = |points: i64| (amount * points + 5000) / 10_000;
        let sum = amount + part(self.surcharge) + part(self.tax);
        [sum + self.tip, sum]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn parts_round_half_up_and_totals_are_unique() {
        let modifiers = Modifiers { surcharge: 250, tax: 825, tip: 100 };
        assert_eq!(modifiers.totals(1000), [1000 + 25 + 83 + 100, 1108]);
        let mut seen = BTreeSet::new();
        for amount in (1_000_000..1_200_000).step_by(2) {
            let all = [&Modifiers::FOR_A_RUN.totals(amount)[..], &[amount]].concat();
            for sum in all.iter().copied().chain(all.iter().map(|sum| sum / 2)) {
                assert!(seen.insert(sum), "{sum}");
            }
        }
    }
}

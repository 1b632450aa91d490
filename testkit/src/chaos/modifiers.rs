//! What payment pages add to an amount, reckoned from docs/billing.md and from nothing else.

use serde_json::{Value, json};

/// Surcharge and tax in basis points of the amount, and a fixed tip that the payer may add.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Modifiers {
    surcharge: i64,
    tax: i64,
    tip: i64,
}

impl Modifiers {
    /// They lead from the amounts of a run to others: no sum is another payment's amount, nor its half.
    pub(super) const OF_A_RUN: Self = Self { surcharge: 3000, tax: 825, tip: 1_100_000 };

    /// As an operator sets them.
    pub(super) fn json(self) -> Value {
        json!({
            "surcharge": {"type": "percent", "value": self.surcharge},
            "tax": {"type": "percent", "value": self.tax},
            "tip": {"type": "fixed", "value": self.tip},
        })
    }

    /// What a page charges for an amount, with the tip and without it.
    pub(super) fn sums(self, amount: i64) -> [i64; 2] {
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
    fn parts_are_rounded_half_up_and_no_sum_is_met_twice() {
        let modifiers = Modifiers { surcharge: 250, tax: 825, tip: 100 };
        assert_eq!(modifiers.sums(1000), [1000 + 25 + 83 + 100, 1108]);
        let mut met = BTreeSet::new();
        for amount in (1_000_000..1_200_000).step_by(2) {
            let all = [&Modifiers::OF_A_RUN.sums(amount)[..], &[amount]].concat();
            for sum in all.iter().copied().chain(all.iter().map(|sum| sum / 2)) {
                assert!(met.insert(sum), "{sum}");
            }
        }
    }
}

//! The convenience fee that an account adds to its sales.

use crate::amount::Amount;

/// In basis points.
pub const HUNDRED_PERCENT: i32 = 10_000;

/// A percentage, a fixed amount, or both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fee {
    /// In basis points, at most [`HUNDRED_PERCENT`].
    pub percent: i32,
    /// In minor units.
    pub fixed: i64,
}

impl Fee {
    /// The fee on an amount: the percentage, rounded half up to minor units, plus the fixed amount.
    pub fn of(self, amount: Amount) -> Amount {
        let whole = i128::from(HUNDRED_PERCENT);
        let part = (i128::from(amount.get()) * i128::from(self.percent) + whole / 2) / whole;
        Amount::from_minor(self.fixed + i64::try_from(part).expect("the part is at most the amount"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_percentage_is_rounded_half_up() {
        for (percent, fixed, amount, fee) in [
            (0, 0, 12_345, 0),
            (0, 50, 1, 50),
            (250, 0, 10_000, 250),
            (250, 0, 19, 0),
            (250, 0, 20, 1),
            (250, 0, 59, 1),
            (250, 0, 60, 2),
            (1, 0, 4_999, 0),
            (1, 0, 5_000, 1),
            (300, 30, 3_350, 131),
            (10_000, 99_999_999_999_999, 99_999_999_999_999, 199_999_999_999_998),
        ] {
            let of = Fee { percent, fixed }.of(Amount::from_minor(amount));
            assert_eq!(of.get(), fee, "{percent} and {fixed} of {amount}");
        }
    }
}

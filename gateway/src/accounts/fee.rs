//! The convenience fee that an account adds to its sales.

use crate::amount::Amount;

/// A hundred percent, in basis points.
pub const WHOLE: i32 = 10_000;

/// A part of the amount, a fixed amount, or both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fee {
    /// In basis points, [`WHOLE`] at most.
    pub percent: i32,
    /// In hundredths.
    pub fixed: i64,
}

impl Fee {
    /// What is added to this amount: the part rounded half up to whole hundredths, and the fixed amount.
    pub fn of(self, amount: Amount) -> Amount {
        let whole = i128::from(WHOLE);
        let part = (i128::from(amount.get()) * i128::from(self.percent) + whole / 2) / whole;
        Amount::hundredths(self.fixed + i64::try_from(part).expect("a part is no more than the whole"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_rounded_half_up() {
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
            let of = Fee { percent, fixed }.of(Amount::hundredths(amount));
            assert_eq!(of.get(), fee, "{percent} and {fixed} of {amount}");
        }
    }
}

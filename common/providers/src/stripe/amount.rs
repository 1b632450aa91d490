//! Amounts as Stripe writes them. Its unit is the minor unit of the currency in most cases, but not in all
//! (docs.stripe.com/currencies, Minor units).

use crate::ProviderKind;
use foundation::money::{Currency, MAX_AMOUNT, Money};

/// The numbers of minor units of which Stripe charges multiples only: hundredths of currencies with thousandths, and whole
/// ariaries. Its rules for HUF and TWD concern payouts.
pub(super) const STEPS: [(&str, i64); 8] =
    [("BHD", 10), ("IQD", 10), ("JOD", 10), ("KWD", 10), ("LYD", 10), ("MGA", 100), ("OMR", 10), ("TND", 10)];
/// Currencies whose unit at Stripe is the major unit, although ISO 4217 has a minor one.
const WHOLE_AT_STRIPE: [&str; 1] = ["MGA"];
/// Currencies without a minor unit, which Stripe nevertheless counts in hundredths.
const HUNDREDTHS_AT_STRIPE: [&str; 2] = ["ISK", "UGX"];

/// How many of one unit make one of the other.
#[derive(Clone, Copy)]
enum Unit {
    Same,
    /// So many of our units are one of Stripe's.
    Larger(i64),
    /// One of our units is so many of Stripe's.
    Smaller(i64),
}

fn unit(currency: Currency) -> Unit {
    if WHOLE_AT_STRIPE.contains(&currency.code()) {
        Unit::Larger(100)
    } else if HUNDREDTHS_AT_STRIPE.contains(&currency.code()) && currency.exponent() == 0 {
        Unit::Smaller(100)
    } else {
        Unit::Same
    }
}

/// The amount in Stripe's unit; `None` if Stripe cannot charge exactly this amount.
pub(super) fn to_stripe(money: Money) -> Option<i64> {
    if !ProviderKind::Stripe.charges(money) {
        return None;
    }
    match unit(money.currency) {
        Unit::Same => Some(money.minor),
        Unit::Larger(factor) => Some(money.minor / factor),
        Unit::Smaller(factor) => money.minor.checked_mul(factor),
    }
}

/// Money from an amount in Stripe's unit and its lower-case currency; `None` if we cannot book it.
pub(super) fn from_stripe(amount: i64, currency: &str) -> Option<Money> {
    let currency: Currency = currency.parse().ok()?;
    let minor = match unit(currency) {
        Unit::Same => Some(amount),
        Unit::Larger(factor) => amount.checked_mul(factor),
        Unit::Smaller(factor) => (amount % factor == 0).then_some(amount / factor),
    };
    minor.filter(|minor| minor.abs() <= MAX_AMOUNT).map(|minor| Money { minor, currency })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn money(minor: i64, currency: &str) -> Money {
        Money { minor, currency: currency.parse().expect("a currency") }
    }

    #[test]
    fn amounts_are_in_the_unit_of_stripe() {
        for (minor, currency, at_stripe) in [
            (1250, "USD", Some(1250)),
            (500, "JPY", Some(500)),
            (1230, "KWD", Some(1230)),
            (1234, "KWD", None),
            (50_000, "MGA", Some(500)),
            (50_050, "MGA", None),
            (500, "ISK", Some(50_000)),
            (500, "UGX", Some(50_000)),
            (i64::MAX, "ISK", None),
        ] {
            assert_eq!(to_stripe(money(minor, currency)), at_stripe, "{minor} {currency}");
            if let Some(amount) = at_stripe {
                assert_eq!(from_stripe(amount, &currency.to_lowercase()), Some(money(minor, currency)));
            }
        }
        assert_eq!(from_stripe(50, "isk"), None);
        assert_eq!(from_stripe(MAX_AMOUNT + 1, "usd"), None);
        assert_eq!(from_stripe(1, "zzz"), None);
    }
}

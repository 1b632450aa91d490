//! Amounts as cardholders know them: `$12.50`, `€12.50`, `¥1,234`; `CHF 12.50` where a currency has no sign of its own.

use std::fmt;

use common::money::{Currency, Money};

/// The signs that mean one currency and no other.
const SIGNS: [(&str, &str); 18] = [
    ("AUD", "A$"),
    ("BRL", "R$"),
    ("CAD", "CA$"),
    ("CNY", "CN¥"),
    ("EUR", "€"),
    ("GBP", "£"),
    ("HKD", "HK$"),
    ("ILS", "₪"),
    ("INR", "₹"),
    ("JPY", "¥"),
    ("KRW", "₩"),
    ("MXN", "MX$"),
    ("NZD", "NZ$"),
    ("PHP", "₱"),
    ("TWD", "NT$"),
    ("UAH", "₴"),
    ("USD", "$"),
    ("VND", "₫"),
];

/// An amount to be shown to a cardholder.
#[derive(Clone, Copy, Debug)]
pub(super) struct Price(pub(super) Money);

impl Price {
    /// An amount in this currency.
    pub(super) fn of(minor: i64, currency: Currency) -> Self {
        Self(Money { minor, currency })
    }
}

impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spelt = self.0.to_string();
        let code = self.0.currency.code();
        match SIGNS.iter().find(|(of, _)| *of == code) {
            Some((_, sign)) => f.write_str(&spelt.replacen(&format!("{code} "), sign, 1)),
            None => f.write_str(&spelt.replacen(' ', "\u{a0}", 1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_stands_for_its_currency_alone() {
        for (minor, code, shown) in [
            (1_250, "USD", "$12.50"),
            (-25, "USD", "\u{2212}$0.25"),
            (123_456, "EUR", "€1,234.56"),
            (1_234, "JPY", "¥1,234"),
            (500, "CAD", "CA$5.00"),
            (1_234, "BHD", "BHD\u{a0}1.234"),
            (500, "CHF", "CHF\u{a0}5.00"),
        ] {
            assert_eq!(Price::of(minor, code.parse().expect("known")).to_string(), shown);
        }
        assert!(SIGNS.is_sorted() && SIGNS.iter().all(|(code, _)| code.parse::<Currency>().is_ok()));
    }
}

//! Amounts for cardholders: `$12.50`, `€12.50`, `¥1,234`; `CHF 12.50` for a currency without a symbol of its own.

use std::fmt;

use foundation::money::{Currency, Money};

/// Symbols that mean exactly one currency.
const SYMBOLS: [(&str, &str); 18] = [
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

#[derive(Clone, Copy, Debug)]
pub(super) struct Price(pub(super) Money);

impl Price {
    pub(super) fn of(minor: i64, currency: Currency) -> Self {
        Self(Money { minor, currency })
    }
}

impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.to_string();
        let code = self.0.currency.code();
        match SYMBOLS.iter().find(|(known, _)| *known == code) {
            Some((_, symbol)) => f.write_str(&text.replacen(&format!("{code} "), symbol, 1)),
            None => f.write_str(&text.replacen(' ', "\u{a0}", 1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_are_unambiguous() {
        for (minor, code, expected) in [
            (1_250, "USD", "$12.50"),
            (-25, "USD", "\u{2212}$0.25"),
            (123_456, "EUR", "€1,234.56"),
            (1_234, "JPY", "¥1,234"),
            (500, "CAD", "CA$5.00"),
            (1_234, "BHD", "BHD\u{a0}1.234"),
            (500, "CHF", "CHF\u{a0}5.00"),
        ] {
            assert_eq!(Price::of(minor, code.parse().expect("known")).to_string(), expected);
        }
        assert!(SYMBOLS.is_sorted() && SYMBOLS.iter().all(|(code, _)| code.parse::<Currency>().is_ok()));
    }
}

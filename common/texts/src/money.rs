//! Amounts: `$12.50` in English, `12,50 $` in German; `CHF 12.50` for a currency without a symbol of its own.

use foundation::money::{Currency, Money};
use icu_decimal::DecimalFormatter;
use icu_decimal::input::Decimal;

use crate::Language;

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

/// The amount in the notation of a language.
pub fn price(language: Language, money: Money) -> String {
    let (texts, code) = (language.texts(), money.currency.code());
    match SYMBOLS.iter().find(|(known, _)| *known == code) {
        Some((_, symbol)) => {
            let number = number(language, money.minor.unsigned_abs().into(), money.currency);
            if money.minor < 0 { texts.money_negative(symbol, number) } else { texts.money(symbol, number) }
        }
        None => amount_by_code(language, money.minor.into(), money.currency),
    }
}

/// The amount in the notation of a language, with the code of its currency, which is the same everywhere.
pub fn amount_by_code(language: Language, minor: i128, currency: Currency) -> String {
    let (texts, number) = (language.texts(), number(language, minor.unsigned_abs(), currency));
    if minor < 0 {
        texts.money_by_code_negative(currency.code(), number)
    } else {
        texts.money_by_code(currency.code(), number)
    }
}

fn number(language: Language, minor: u128, currency: Currency) -> String {
    let exponent = i16::try_from(currency.exponent()).expect("at most 4 places");
    let mut digits = Decimal::from(minor);
    digits.multiply_pow10(-exponent);
    digits.pad_end(-exponent);
    let formatter = DecimalFormatter::try_new(language.locale().into(), Default::default()).expect("compiled data");
    formatter.format(&digits).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_the_notation_of_their_language() {
        for (minor, code, language, expected) in [
            (1_250, "USD", Language::En, "$12.50"),
            (5, "USD", Language::En, "$0.05"),
            (-25, "USD", Language::En, "\u{2212}$0.25"),
            (123_456, "EUR", Language::En, "€1,234.56"),
            (1_234, "JPY", Language::En, "¥1,234"),
            (500, "CAD", Language::En, "CA$5.00"),
            (1_234, "BHD", Language::En, "BHD\u{a0}1.234"),
            (500, "CHF", Language::En, "CHF\u{a0}5.00"),
            (-123_456, "EUR", Language::De, "\u{2212}1.234,56\u{a0}€"),
            (500, "CHF", Language::De, "5,00\u{a0}CHF"),
            (123_456_700, "EUR", Language::Fr, "1\u{202f}234\u{202f}567,00\u{a0}€"),
            (1_234_567, "USD", Language::Es, "12.345,67\u{a0}$"),
            (1_234, "JPY", Language::Ja, "¥1,234"),
            (9_007_199_254_740_991, "USD", Language::En, "$90,071,992,547,409.91"),
        ] {
            assert_eq!(price(language, Money { minor, currency: code.parse().expect("known") }), expected);
        }
        assert!(SYMBOLS.is_sorted() && SYMBOLS.iter().all(|(code, _)| code.parse::<Currency>().is_ok()));
    }

    #[test]
    fn amounts_with_a_code_have_no_symbol() {
        let euro = "EUR".parse().expect("known");
        for (minor, language, expected) in [
            (-123_456, Language::De, "\u{2212}1.234,56\u{a0}EUR"),
            (
                9_007_199_254_740_991_000,
                Language::Fr,
                "90\u{202f}071\u{202f}992\u{202f}547\u{202f}409\u{202f}910,00\u{a0}EUR",
            ),
            (5, Language::Ja, "EUR\u{a0}0.05"),
        ] {
            assert_eq!(amount_by_code(language, minor, euro), expected);
        }
    }
}

//! Money: an amount in the minor unit of its ISO 4217 currency.

mod active;

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

use serde::Serialize;
use utoipa::openapi::{ObjectBuilder, Type};

use crate::schema::schema_is;
use crate::text_column::text_column;

/// The largest absolute amount: the largest integer that JSON numbers represent exactly (2^53 − 1).
pub const MAX_AMOUNT: i64 = 9_007_199_254_740_991;

/// An ISO 4217 currency.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Currency(iso_currency::Currency);

/// The code is not a currency.
#[derive(Debug, thiserror::Error)]
#[error("not a currency of ISO 4217 in use")]
pub struct UnknownCurrency;

impl Currency {
    /// Parses the code of a currency in use, in any case.
    ///
    /// # Errors
    /// For any other text, also the code of a fund or of a currency that was withdrawn.
    pub fn active(text: &str) -> Result<Self, UnknownCurrency> {
        let currency: Self = text.parse()?;
        active::ACTIVE.binary_search(&currency.code()).map(|_| currency).map_err(|_| UnknownCurrency)
    }

    /// The codes that [`Currency::active`] accepts, in upper case.
    pub fn active_codes() -> impl Iterator<Item = &'static str> {
        active::ACTIVE.into_iter()
    }

    /// The three-letter code in upper case.
    pub fn code(self) -> &'static str {
        self.0.code()
    }

    /// Decimal places of the major unit: 2 for USD, 0 for JPY, 3 for BHD.
    pub fn exponent(self) -> u16 {
        self.0.exponent().unwrap_or(0)
    }
}

impl FromStr for Currency {
    type Err = UnknownCurrency;

    /// Accepts any case, and codes that are no longer in use, because stored objects have them. Codes without a minor
    /// unit, such as those of metals and tests, are rejected.
    fn from_str(text: &str) -> Result<Self, UnknownCurrency> {
        let currency = iso_currency::Currency::from_code(&text.to_ascii_uppercase()).ok_or(UnknownCurrency)?;
        match currency.exponent() {
            Some(_) => Ok(Self(currency)),
            None => Err(UnknownCurrency),
        }
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

impl fmt::Debug for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

impl Serialize for Currency {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.code())
    }
}

text_column!(Currency);

/// A sum of amounts in minor units, which SQL returns as text. No number of rows exceeds its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Sum(i128);

impl Sum {
    pub const fn new(minor: i128) -> Self {
        Self(minor)
    }

    /// In minor units.
    pub const fn minor(self) -> i128 {
        self.0
    }

    /// The displayed notation: `USD 1,234.50`, `JPY 1,234`.
    pub fn shown(self, currency: Currency) -> String {
        let exponent = usize::from(currency.exponent());
        let digits = format!("{:0>width$}", self.0.unsigned_abs(), width = exponent + 1);
        let (whole, part) = digits.split_at(digits.len() - exponent);
        let sign = if self.0 < 0 { "\u{2212}" } else { "" };
        let mut shown = format!("{sign}{currency} ");
        for (i, digit) in whole.chars().enumerate() {
            if i > 0 && (whole.len() - i).is_multiple_of(3) {
                shown.push(',');
            }
            shown.push(digit);
        }
        if part.is_empty() { shown } else { format!("{shown}.{part}") }
    }
}

schema_is!(Sum, ObjectBuilder::new().schema_type(Type::Integer).build());

impl FromStr for Sum {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        text.parse().map(Self)
    }
}

text_column!(Sum);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Money {
    /// Minor units: cents of USD, whole yen of JPY.
    pub minor: i64,
    pub currency: Currency,
}

impl Money {
    /// The decimal notation for forms and ledgers: `1234.50` of USD, `1234` of JPY.
    pub fn to_decimal(self) -> String {
        let exponent = usize::from(self.currency.exponent());
        let digits = format!("{:0>width$}", self.minor.unsigned_abs(), width = exponent + 1);
        let (whole, part) = digits.split_at(digits.len() - exponent);
        let sign = if self.minor < 0 { "-" } else { "" };
        if part.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{part}") }
    }

    /// Parses the notation of [`Money::to_decimal`] for amounts from zero; `None` for any other text.
    pub fn from_decimal(text: &str, currency: Currency) -> Option<Self> {
        let exponent = usize::from(currency.exponent());
        let (whole, part) = if exponent == 0 { (text, "") } else { text.split_once('.')? };
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || part.len() != exponent || !digits(whole) || !digits(part) {
            return None;
        }
        let minor: i64 = format!("{whole}{part}").parse().ok()?;
        (minor <= MAX_AMOUNT).then_some(Self { minor, currency })
    }
}

/// As [`Sum::shown`].
impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Sum(self.minor.into()).shown(self.currency))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use testkit::fuzz::{check, mutated, texts};

    #[test]
    fn decimals_follow_the_exponent() {
        for (code, minor, text) in [
            ("USD", 0, "0.00"),
            ("USD", 5, "0.05"),
            ("USD", 13_324, "133.24"),
            ("USD", MAX_AMOUNT, "90071992547409.91"),
            ("JPY", 1_234, "1234"),
            ("BHD", 1, "0.001"),
            ("BHD", 12_345, "12.345"),
        ] {
            let money = Money { minor, currency: code.parse().unwrap() };
            assert_eq!(money.to_decimal(), text);
            assert_eq!(Money::from_decimal(text, money.currency), Some(money));
        }
        assert_eq!(Money { minor: -5, currency: "USD".parse().unwrap() }.to_decimal(), "-0.05");
        for text in
            ["", ".", "1", "1.5", "1.555", "-1.00", "+1.00", " 1.00", "1,00", "90071992547409.92", "1e2.00", ".00"]
        {
            assert_eq!(Money::from_decimal(text, "USD".parse().unwrap()), None, "{text}");
        }
        assert_eq!(Money::from_decimal("1.0", "JPY".parse().unwrap()), None);
    }

    #[test]
    fn currencies_are_parsed_in_any_case_and_printed_in_upper_case() {
        for text in ["usd", "USD", "Usd"] {
            assert_eq!(text.parse::<Currency>().expect("known").code(), "USD");
        }
        for text in ["", "US", "USDX", "XXX", "XAU", "ZZZ", "€", "us d"] {
            assert!(text.parse::<Currency>().is_err(), "{text}");
        }
    }

    #[test]
    fn only_currencies_in_use_are_active() {
        for text in ["usd", "EUR", "Xcg", "VES", "zwg", "SLE"] {
            assert!(Currency::active(text).is_ok(), "{text}");
        }
        let funds = ["BOV", "CHE", "CHW", "CLF", "COU", "MXV", "USN", "UYI", "UYW"];
        for text in [&funds[..], &["BGN", "CUC", "HRK", "SLL", "ZWL"]].concat() {
            assert!(Currency::active(text).is_err() && text.parse::<Currency>().is_ok(), "{text}");
        }
        for text in ["", "US", "XAD", "XAU", "XDR", "XXX", "XTS", "ANG", "DEM", "ZZZ"] {
            assert!(Currency::active(text).is_err(), "{text}");
        }
    }

    #[test]
    fn money_is_printed_by_the_exponent_of_its_currency() {
        for (minor, code, printed) in [
            (0, "USD", "USD 0.00"),
            (5, "USD", "USD 0.05"),
            (1234, "USD", "USD 12.34"),
            (100_000, "USD", "USD 1,000.00"),
            (-1234, "USD", "\u{2212}USD 12.34"),
            (0, "JPY", "JPY 0"),
            (123, "JPY", "JPY 123"),
            (1_234_567, "JPY", "JPY 1,234,567"),
            (7, "BHD", "BHD 0.007"),
            (12_345_678, "BHD", "BHD 12,345.678"),
            (MAX_AMOUNT, "CLF", "CLF 900,719,925,474.0991"),
        ] {
            let money = Money { minor, currency: code.parse().expect("known") };
            assert_eq!(money.to_string(), printed);
        }
    }

    #[test]
    fn exponents_come_from_the_table() {
        for (code, exponent) in [("USD", 2), ("JPY", 0), ("BHD", 3), ("CLF", 4)] {
            assert_eq!(code.parse::<Currency>().expect("known").exponent(), exponent, "{code}");
        }
    }

    fn currencies() -> impl Strategy<Value = Currency> {
        let all: Vec<Currency> = ["USD", "JPY", "BHD", "CLF", "EUR"].iter().map(|code| code.parse().unwrap()).collect();
        proptest::sample::select(all)
    }

    #[test]
    fn every_amount_round_trips() {
        check((currencies(), 0..=MAX_AMOUNT), |(currency, minor)| {
            let money = Money { minor, currency };
            assert_eq!(Money::from_decimal(&money.to_decimal(), currency), Some(money));
        });
    }

    #[test]
    fn parsed_amounts_are_valid_and_within_the_limit() {
        check(
            (currencies(), prop_oneof![mutated("1234.50"), mutated("90071992547409.91"), texts()]),
            |(currency, text)| {
                if let Some(money) = Money::from_decimal(&text, currency) {
                    assert!((0..=MAX_AMOUNT).contains(&money.minor), "{text}");
                    let (written, zeros) = (money.to_decimal(), text.trim_start_matches('0'));
                    assert_eq!(written.trim_start_matches('0'), zeros, "{text}");
                }
            },
        );
    }

    #[test]
    fn currencies_are_parsed_only_from_their_own_code() {
        check(prop_oneof![mutated("USD"), mutated("jpy"), texts()], |text| {
            if let Ok(currency) = text.parse::<Currency>() {
                assert!(currency.code().eq_ignore_ascii_case(&text), "{text}");
            }
        });
    }
}

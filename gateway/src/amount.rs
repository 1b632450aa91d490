//! Amounts: decimals with at most two places, stored as integers in minor units. No floating point is involved.

use std::fmt;
use std::str::FromStr;

/// Maximum number of digits before the decimal point.
const MAX_DIGITS: usize = 12;

/// Money in minor units; every currency of the gateway has two decimal places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Amount(i64);

/// The text is not a valid amount.
#[derive(Debug)]
pub struct InvalidAmount;

impl Amount {
    pub const ZERO: Self = Self(0);

    /// From minor units.
    pub const fn from_minor(minor: i64) -> Self {
        Self(minor)
    }

    /// In minor units.
    pub const fn get(self) -> i64 {
        self.0
    }
}

impl FromStr for Amount {
    type Err = InvalidAmount;

    /// Digits, optionally followed by a point and one or two digits. No sign, exponent or grouping.
    fn from_str(text: &str) -> Result<Self, InvalidAmount> {
        let (whole, places) = text.split_once('.').unwrap_or((text, "0"));
        let digits =
            |text: &str, max: usize| (1..=max).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(whole, MAX_DIGITS) || !digits(places, 2) {
            return Err(InvalidAmount);
        }
        format!("{whole}{places:0<2}").parse().map(Self).map_err(|_| InvalidAmount)
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:02}", self.0 / 100, self.0 % 100)
    }
}

/// A JSON number with exactly two decimal places.
impl serde::Serialize for Amount {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let number = serde_json::value::RawValue::from_string(self.to_string());
        number.map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use testkit::fuzz::{check, mutated, texts};

    #[test]
    fn amounts_have_at_most_two_decimal_places() {
        let read = [
            ("133.24", 13_324),
            ("133.2", 13_320),
            ("133", 13_300),
            ("0.01", 1),
            ("0", 0),
            ("007.10", 710),
            ("999999999999.99", 99_999_999_999_999),
        ];
        for (text, minor) in read {
            assert_eq!(text.parse::<Amount>().expect(text).get(), minor, "{text}");
        }
        let none = [
            "",
            ".",
            "133.245",
            "1.",
            ".5",
            "-1",
            "+1",
            "1e3",
            "1,000",
            "1,00",
            " 1",
            "1 ",
            "0x10",
            "NaN",
            "1.2.3",
            "１",
            "1000000000000",
            "99999999999999999999",
        ];
        for text in none {
            assert!(text.parse::<Amount>().is_err(), "{text}");
        }
    }

    #[test]
    fn amounts_are_printed_exactly() {
        for (minor, text) in [(0, "0.00"), (1, "0.01"), (13_320, "133.20"), (99_999_999_999_999, "999999999999.99")] {
            assert_eq!(Amount::from_minor(minor).to_string(), text);
            let json = serde_json::to_string(&Amount::from_minor(minor)).expect("JSON");
            assert_eq!(json, text);
        }
    }

    #[test]
    fn printed_amounts_parse_to_the_same_amount() {
        check(0..=99_999_999_999_999i64, |minor| {
            let amount = Amount::from_minor(minor);
            assert_eq!(amount.to_string().parse::<Amount>().expect("ours"), amount);
        });
    }

    #[test]
    fn parsed_amounts_equal_their_text() {
        check(prop_oneof![mutated("133.24"), mutated("999999999999.99"), texts()], |text| {
            let Ok(amount) = text.parse::<Amount>() else { return };
            assert!((0..=99_999_999_999_999).contains(&amount.get()), "{text}");
            let printed = amount.to_string();
            let (whole, places) = text.split_once('.').unwrap_or((&text, ""));
            let as_sent = format!("{}.{places:0<2}", whole.trim_start_matches('0'));
            assert_eq!(printed.trim_start_matches('0'), as_sent, "{text}");
        });
    }
}

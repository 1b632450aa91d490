//! Cards: numbers that are never printed, and the parts that may be displayed.

mod brand;
pub mod ecb;
pub mod funding;
mod number;
mod ring;
pub mod vault;

use std::fmt;

use foundation::calendar::Date;
use foundation::crypto::{Secret, sha256};
use serde::{Deserialize, Serialize};

pub use brand::Brand;
pub use number::CardNumber;
pub(crate) use number::{digits, passes_luhn};
pub use ring::KeyRing;

/// A card's expiration month.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expiry {
    year: u16,
    month: u8,
}

impl Expiry {
    /// Two digits for the month and four for the year.
    pub fn parse(month: &str, year: &str) -> Option<Self> {
        let digits = |text: &str, count| text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(month, 2) || !digits(year, 4) {
            return None;
        }
        let (month, year) = (month.parse().ok()?, year.parse().ok()?);
        (1..=12).contains(&month).then_some(Self { year, month })
    }

    /// Parses the `Display` form.
    pub fn from_display(text: &str) -> Option<Self> {
        let (month, year) = text.split_once('/')?;
        Self::parse(month, year)
    }

    /// 1 to 12.
    pub const fn month(self) -> u8 {
        self.month
    }

    pub const fn year(self) -> u16 {
        self.year
    }

    /// Cards are valid to the end of their month. A date more than twenty years ahead is invalid.
    pub fn is_valid_on(self, today: Date) -> bool {
        let today = today.to_string();
        let year: u16 = today[..4].parse().expect("a day is printed with four digits of its year");
        let month = format!("{:04}-{:02}", self.year, self.month);
        *month.as_str() >= today[..7] && self.year <= year.saturating_add(20)
    }
}

impl fmt::Display for Expiry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}/{:04}", self.month, self.year)
    }
}

/// A card's security code. It is held in memory for one request, or encrypted in a card field's token.
#[derive(Clone, Debug)]
pub struct SecurityCode(Secret<String>);

impl SecurityCode {
    /// Three or four digits.
    pub fn parse(text: &str) -> Option<Self> {
        let good = (3..=4).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        good.then(|| Self(Secret::new(text.to_owned())))
    }

    /// The digits, for encryption.
    pub fn expose(&self) -> &str {
        self.0.expose()
    }
}

/// The parts of a card that may be displayed.
#[derive(Clone, Debug)]
pub struct MaskedCard {
    pub brand: Brand,
    /// All but the last four digits hidden.
    pub masked: String,
    pub expiry: Expiry,
}

impl MaskedCard {
    pub fn of(number: &CardNumber, expiry: Expiry) -> Self {
        Self { brand: number.brand(), masked: number.masked(), expiry }
    }

    pub fn last_four(&self) -> &str {
        &self.masked[self.masked.len().saturating_sub(4)..]
    }
}

/// What is known of the cardholder.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Cardholder {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zip_code: Option<String>,
    /// ISO 3166-1 alpha-2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub country_code: Option<String>,
}

/// The hash under which a random token is stored. It needs no key, because the token has enough entropy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    pub fn of(token: &str) -> Self {
        Self(sha256(token.as_bytes()))
    }

    /// From the stored bytes.
    ///
    /// # Panics
    /// If they are not 32 bytes, which the schema ensures.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self(bytes.try_into().expect("the schema ensures 32 bytes"))
    }

    /// As stored.
    pub const fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The encryption context of a ciphertext in this token's row.
    pub fn context(&self, what: &str) -> String {
        format!("{what}:{}", foundation::crypto::hex(&self.0))
    }
}

/// The hash under which a used proxy number is stored.
#[derive(Clone, Debug)]
pub struct ProxyHash(pub(crate) [u8; 32]);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use testkit::fuzz::{check, mutated, texts};

    #[test]
    fn a_card_is_valid_to_the_end_of_its_month() {
        let expiry = Expiry::parse("02", "2028").expect("a month");
        assert_eq!(expiry.to_string(), "02/2028");
        assert_eq!(Expiry::from_display("02/2028"), Some(expiry));
        for (day, good) in [
            ("2027-12-31", true),
            ("2028-02-29", true),
            ("2028-03-01", false),
            ("2029-01-01", false),
            ("2007-02-28", false),
        ] {
            assert_eq!(expiry.is_valid_on(day.parse().expect("a day")), good, "{day}");
        }
        for (month, year) in
            [("2", "2028"), ("00", "2028"), ("13", "2028"), ("02", "28"), ("+2", "2028"), ("", ""), ("ab", "2028")]
        {
            assert_eq!(Expiry::parse(month, year), None, "{month}/{year}");
        }
    }

    #[test]
    fn security_codes_have_three_or_four_digits() {
        assert!(SecurityCode::parse("123").is_some() && SecurityCode::parse("1234").is_some());
        for bad in ["", "12", "12345", "12a", " 123"] {
            assert!(SecurityCode::parse(bad).is_none(), "{bad}");
        }
        assert!(!format!("{:?}", SecurityCode::parse("987")).contains("987"));
    }

    #[test]
    fn expirations_parse_as_printed_and_security_codes_are_digits() {
        check((mutated("02"), mutated("2028"), prop_oneof![mutated("987"), texts()]), |(month, year, code)| {
            if let Some(expiry) = Expiry::parse(&month, &year) {
                assert!((1..=12).contains(&expiry.month()));
                assert_eq!(expiry.to_string(), format!("{month}/{year}"));
                assert_eq!(Expiry::from_display(&expiry.to_string()), Some(expiry));
                expiry.is_valid_on("2026-11-21".parse().expect("a day"));
            }
            let digits = (3..=4).contains(&code.len()) && code.bytes().all(|byte| byte.is_ascii_digit());
            let read = SecurityCode::parse(&code);
            assert_eq!(read.is_some(), digits, "{code}");
            assert!(read.is_none_or(|read| format!("{read:?}") == "SecurityCode([secret])"));
        });
    }
}

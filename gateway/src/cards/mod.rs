//! Cards: numbers that cannot be printed, and what may be shown of them.

mod brand;
pub mod ecb;
mod number;
mod ring;
pub mod source;
mod store;
pub mod vault;

use std::fmt;

use common::calendar::Date;
use common::crypto::{Secret, sha256};
use serde::{Deserialize, Serialize};

pub use brand::Brand;
pub use number::Number;
pub(crate) use number::passes_luhn;
pub use ring::KeyRing;

/// The month in which a card ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expiry {
    year: u16,
    month: u8,
}

impl Expiry {
    /// Two digits of a month and four of a year; none if they are anything else.
    pub fn parse(month: &str, year: &str) -> Option<Self> {
        let digits = |text: &str, count| text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(month, 2) || !digits(year, 4) {
            return None;
        }
        let (month, year) = (month.parse().ok()?, year.parse().ok()?);
        (1..=12).contains(&month).then_some(Self { year, month })
    }

    /// Reads what it prints.
    pub fn read(text: &str) -> Option<Self> {
        let (month, year) = text.split_once('/')?;
        Self::parse(month, year)
    }

    /// 1 to 12.
    pub const fn month(self) -> u8 {
        self.month
    }

    /// Four digits.
    pub const fn year(self) -> u16 {
        self.year
    }

    /// Whether a card is still good on this day: it is to the end of its month. A date beyond twenty years is a mistake.
    pub fn is_good_on(self, today: Date) -> bool {
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

/// The security code of a card. It is in memory for one request, or encrypted in the token of a capture field.
#[derive(Clone, Debug)]
pub struct SecurityCode(Secret<String>);

impl SecurityCode {
    /// Three or four digits; none if it is anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let good = (3..=4).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        good.then(|| Self(Secret::new(text.to_owned())))
    }

    /// The digits, for encrypting them.
    pub fn expose(&self) -> &str {
        self.0.expose()
    }
}

/// What may be shown of a card.
#[derive(Clone, Debug)]
pub struct Face {
    /// Whose card it is.
    pub brand: Brand,
    /// All but the last four digits hidden.
    pub masked: String,
    /// When it ends.
    pub expiry: Expiry,
}

impl Face {
    /// The face of a number.
    pub fn of(number: &Number, expiry: Expiry) -> Self {
        Self { brand: number.brand(), masked: number.masked(), expiry }
    }

    /// The digits that may be shown.
    pub fn last_four(&self) -> &str {
        &self.masked[self.masked.len().saturating_sub(4)..]
    }
}

/// Who holds a card, as far as it is known with the card.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Holder {
    /// First name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_name: Option<String>,
    /// Last name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_name: Option<String>,
    /// Postal code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zip_code: Option<String>,
    /// Two letters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub country_code: Option<String>,
}

/// The hash by which a random token is known here. It needs no key: the token is random enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    /// Of this token.
    pub fn of(token: &str) -> Self {
        Self(sha256(token.as_bytes()))
    }

    /// As Postgres has kept it.
    ///
    /// # Panics
    /// On anything that is no hash, which the schema refuses.
    pub fn read(bytes: &[u8]) -> Self {
        Self(bytes.try_into().expect("the schema says that it has 32 bytes"))
    }

    /// As Postgres keeps it.
    pub const fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// What a ciphertext in the row of this token is bound to.
    pub fn context(&self, what: &str) -> String {
        format!("{what}:{}", common::crypto::hex(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use testkit::fuzz::{check, mutated, texts};

    #[test]
    fn a_card_is_good_to_the_end_of_its_month() {
        let expiry = Expiry::parse("02", "2028").expect("a month");
        assert_eq!(expiry.to_string(), "02/2028");
        assert_eq!(Expiry::read("02/2028"), Some(expiry));
        for (day, good) in [
            ("2027-12-31", true),
            ("2028-02-29", true),
            ("2028-03-01", false),
            ("2029-01-01", false),
            ("2007-02-28", false),
        ] {
            assert_eq!(expiry.is_good_on(day.parse().expect("a day")), good, "{day}");
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
    fn a_month_is_read_as_it_is_printed_and_a_code_is_its_digits() {
        check((mutated("02"), mutated("2028"), prop_oneof![mutated("987"), texts()]), |(month, year, code)| {
            if let Some(expiry) = Expiry::parse(&month, &year) {
                assert!((1..=12).contains(&expiry.month()));
                assert_eq!(expiry.to_string(), format!("{month}/{year}"));
                assert_eq!(Expiry::read(&expiry.to_string()), Some(expiry));
                expiry.is_good_on("2026-11-21".parse().expect("a day"));
            }
            let digits = (3..=4).contains(&code.len()) && code.bytes().all(|byte| byte.is_ascii_digit());
            let read = SecurityCode::parse(&code);
            assert_eq!(read.is_some(), digits, "{code}");
            assert!(read.is_none_or(|read| format!("{read:?}") == "SecurityCode([secret])"));
        });
    }
}

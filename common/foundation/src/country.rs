//! Countries: the assigned ISO 3166-1 alpha-2 codes.
//!
//! We maintain the table because only the codes are needed and the last one was added in 2011. The available crates
//! either include names and subdivisions in many languages or are unmaintained. A withdrawn code stays in the table,
//! because stored addresses may use it.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::schema;
use crate::text_column::text_column;

/// All codes in alphabetical order.
const CODES: [&str; 249] = [
    "AD", "AE", "AF", "AG", "AI", "AL", "AM", "AO", "AQ", "AR", "AS", "AT", "AU", "AW", "AX", "AZ", "BA", "BB", "BD",
    "BE", "BF", "BG", "BH", "BI", "BJ", "BL", "BM", "BN", "BO", "BQ", "BR", "BS", "BT", "BV", "BW", "BY", "BZ", "CA",
    "CC", "CD", "CF", "CG", "CH", "CI", "CK", "CL", "CM", "CN", "CO", "CR", "CU", "CV", "CW", "CX", "CY", "CZ", "DE",
    "DJ", "DK", "DM", "DO", "DZ", "EC", "EE", "EG", "EH", "ER", "ES", "ET", "FI", "FJ", "FK", "FM", "FO", "FR", "GA",
    "GB", "GD", "GE", "GF", "GG", "GH", "GI", "GL", "GM", "GN", "GP", "GQ", "GR", "GS", "GT", "GU", "GW", "GY", "HK",
    "HM", "HN", "HR", "HT", "HU", "ID", "IE", "IL", "IM", "IN", "IO", "IQ", "IR", "IS", "IT", "JE", "JM", "JO", "JP",
    "KE", "KG", "KH", "KI", "KM", "KN", "KP", "KR", "KW", "KY", "KZ", "LA", "LB", "LC", "LI", "LK", "LR", "LS", "LT",
    "LU", "LV", "LY", "MA", "MC", "MD", "ME", "MF", "MG", "MH", "MK", "ML", "MM", "MN", "MO", "MP", "MQ", "MR", "MS",
    "MT", "MU", "MV", "MW", "MX", "MY", "MZ", "NA", "NC", "NE", "NF", "NG", "NI", "NL", "NO", "NP", "NR", "NU", "NZ",
    "OM", "PA", "PE", "PF", "PG", "PH", "PK", "PL", "PM", "PN", "PR", "PS", "PT", "PW", "PY", "QA", "RE", "RO", "RS",
    "RU", "RW", "SA", "SB", "SC", "SD", "SE", "SG", "SH", "SI", "SJ", "SK", "SL", "SM", "SN", "SO", "SR", "SS", "ST",
    "SV", "SX", "SY", "SZ", "TC", "TD", "TF", "TG", "TH", "TJ", "TK", "TL", "TM", "TN", "TO", "TR", "TT", "TV", "TW",
    "TZ", "UA", "UG", "UM", "US", "UY", "UZ", "VA", "VC", "VE", "VG", "VI", "VN", "VU", "WF", "WS", "YE", "YT", "ZA",
    "ZM", "ZW",
];

/// A country by its upper-case code.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Country(&'static str);

/// No country has this code.
#[derive(Debug, thiserror::Error)]
#[error("not an ISO 3166-1 country code")]
pub struct UnknownCountry;

impl Country {
    pub const fn code(self) -> &'static str {
        self.0
    }

    /// All countries in the order of their codes.
    pub fn all() -> impl Iterator<Item = Self> {
        CODES.into_iter().map(Self)
    }

    /// A case-insensitive pattern of all codes, for the OpenAPI document.
    pub fn pattern() -> String {
        schema::any_case(CODES)
    }
}

impl FromStr for Country {
    type Err = UnknownCountry;

    /// Case-insensitive.
    fn from_str(text: &str) -> Result<Self, UnknownCountry> {
        let upper = text.to_ascii_uppercase();
        CODES.binary_search(&upper.as_str()).map(|at| Self(CODES[at])).map_err(|_| UnknownCountry)
    }
}

impl fmt::Display for Country {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

impl fmt::Debug for Country {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

schema::schema_is!(Country, schema::text("^[A-Z]{2}$", "US"));

impl Serialize for Country {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.code())
    }
}

text_column!(Country);

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::fuzz::{check, mutated};

    #[test]
    fn the_table_is_sorted_and_matches_another_crate() {
        assert!(CODES.is_sorted_by(|one, next| one < next));
        // iso_currency has the codes of 2018; none has changed since.
        let letters = || 'A'..='Z';
        for code in letters().flat_map(|a| letters().map(move |b| String::from_iter([a, b]))) {
            let expected = code.parse::<iso_currency::Country>().is_ok();
            assert_eq!(code.parse::<Country>().is_ok(), expected, "{code}");
        }
    }

    #[test]
    fn parsing_is_case_insensitive_and_output_is_upper_case() {
        for (text, code) in [("us", "US"), ("DE", "DE"), ("Ad", "AD"), ("zW", "ZW"), ("gb", "GB"), ("ss", "SS")] {
            assert_eq!(text.parse::<Country>().expect("assigned").code(), code);
        }
        // Reserved, withdrawn or user-assigned codes, and malformed texts.
        for text in ["UK", "EU", "XK", "AN", "YU", "ZZ", "", "U", "USA", "U ", "\u{df}", "ıt"] {
            assert!(text.parse::<Country>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_parsed_country_has_the_given_code() {
        check(mutated("gb"), |text| {
            if let Ok(country) = text.parse::<Country>() {
                assert!(country.code().eq_ignore_ascii_case(&text), "{text}");
            }
        });
    }
}

//! Countries: the codes of ISO 3166-1 alpha-2 that are assigned.
//!
//! The table is ours: of the standard the codes alone are needed, it last gained one in 2011, and the crates for it either bring
//! names and subdivisions in many languages or have stood still for years, so that the next code would have to wait for them.
//! A code that is withdrawn stays here, for stored addresses bear it.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgTypeInfo, PgValueRef, Postgres};

use crate::schema;

/// Every code, in the order of the alphabet.
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

/// A country, by its two letters in upper case.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Country(&'static str);

/// No country has this code.
#[derive(Debug, thiserror::Error)]
#[error("not a country of ISO 3166-1")]
pub struct UnknownCountry;

impl Country {
    /// The two letters.
    pub const fn code(self) -> &'static str {
        self.0
    }

    /// Every country, in the order of the codes.
    pub fn all() -> impl Iterator<Item = Self> {
        CODES.into_iter().map(Self)
    }

    /// A pattern of every code in any case, for the document of the API.
    pub fn pattern() -> String {
        schema::any_case(CODES)
    }
}

impl FromStr for Country {
    type Err = UnknownCountry;

    /// Any case is read.
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

impl sqlx::Type<Postgres> for Country {
    fn type_info() -> PgTypeInfo {
        <str as sqlx::Type<Postgres>>::type_info()
    }
}

impl sqlx::Decode<'_, Postgres> for Country {
    fn decode(value: PgValueRef<'_>) -> Result<Self, BoxDynError> {
        Ok(<&str as sqlx::Decode<Postgres>>::decode(value)?.parse()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::fuzz::{check, mutated};

    #[test]
    fn the_table_is_in_order_and_as_others_have_it() {
        assert!(CODES.is_sorted_by(|one, next| one < next));
        // A crate among our dependencies has the codes of 2018; none has come or gone since.
        let letters = || 'A'..='Z';
        for code in letters().flat_map(|a| letters().map(move |b| String::from_iter([a, b]))) {
            let theirs = code.parse::<iso_currency::Country>().is_ok();
            assert_eq!(code.parse::<Country>().is_ok(), theirs, "{code}");
        }
    }

    #[test]
    fn countries_are_read_in_any_case_and_printed_in_upper_case() {
        for (text, code) in [("us", "US"), ("DE", "DE"), ("Ad", "AD"), ("zW", "ZW"), ("gb", "GB"), ("ss", "SS")] {
            assert_eq!(text.parse::<Country>().expect("assigned").code(), code);
        }
        // Reserved, withdrawn or left to users, or no code at all.
        for text in ["UK", "EU", "XK", "AN", "YU", "ZZ", "", "U", "USA", "U ", "\u{df}", "ıt"] {
            assert!(text.parse::<Country>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_country_is_read_as_its_own_code_or_not_at_all() {
        check(mutated("gb"), |text| {
            if let Ok(country) = text.parse::<Country>() {
                assert!(country.code().eq_ignore_ascii_case(&text), "{text}");
            }
        });
    }
}

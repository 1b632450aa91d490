//! Amounts and times. English pages show codes of currencies and ISO 8601; pages in other languages have their notation.

use ::texts::{Language, amount_by_code};
use foundation::money::{Currency, Money, Sum};

use super::{filled, language};

/// An amount with its currency.
pub(crate) fn money(money: Money) -> String {
    sum(Sum::new(money.minor.into()), money.currency)
}

pub(crate) fn sum(sum: Sum, currency: Currency) -> String {
    match language() {
        Language::En => sum.shown(currency),
        language @ (Language::De | Language::Es | Language::Fr | Language::Ja) => {
            amount_by_code(language, sum.minor(), currency)
        }
    }
}

/// What may separate thousands in an amount that is entered.
pub(crate) fn thousands_separator() -> char {
    match language() {
        Language::De | Language::Es => '.',
        Language::En | Language::Fr | Language::Ja => ',',
    }
}

/// A day that is given as `2026-01-31`.
pub(crate) fn day(date: &str) -> String {
    match date.split('-').collect::<Vec<_>>()[..] {
        [year, month, day] => filled("{year}-{month}-{day}", &[("year", &year), ("month", &month), ("day", &day)]),
        _ => date.to_owned(),
    }
}

/// A time of /v1, to the minute.
pub(crate) fn minute(time: &str) -> Option<String> {
    let (date, time) = time.get(..16)?.split_once('T')?;
    Some(filled("{date} {time} UTC", &[("date", &day(date)), ("time", &time)]))
}

/// A percentage, by its whole part and its decimals.
pub(crate) fn percent(whole: i64, decimals: &str) -> String {
    filled("{whole}.{decimals}%", &[("whole", &whole), ("decimals", &decimals)])
}

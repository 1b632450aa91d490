//! Texts, amounts and dates for payers, and invitations to the portal, in each language. A text is a function, so one that is
//! missing in a language, or lacks an argument, does not compile.

mod dates;
mod language;
mod money;

/// Generated from `locales/` by `build.rs`.
#[allow(clippy::all, clippy::unwrap_used, missing_docs, reason = "generated")]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/l10n.rs"));
}

pub use dates::{date, moment};
pub use generated::L10n as Language;
pub use generated::L10nLanguage as Texts;
pub use money::{amount_by_code, price};

/// The name of a card's brand, by its code in /v1.
pub fn brand_name(brand: &str) -> &str {
    match brand {
        "visa" => "Visa",
        "mastercard" => "Mastercard",
        "amex" | "american_express" => "American Express",
        "discover" => "Discover",
        "diners" | "diners_club" => "Diners Club",
        "jcb" => "JCB",
        "unionpay" => "UnionPay",
        other => other,
    }
}

/// The lines below the merchant's name: its address and its number for tax.
pub fn seller(texts: &Texts, address: Option<&str>, tax_number: Option<&str>) -> Vec<String> {
    let address = address.into_iter().flat_map(str::lines).map(str::to_owned);
    address.chain(tax_number.map(|number| texts.tax_number(number))).collect()
}

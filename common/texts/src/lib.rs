//! Texts, amounts and dates for payers, in each language. A text is a function, so one that is missing in a language, or
//! lacks an argument, does not compile.

mod card;
mod dates;
mod language;
mod money;
mod seller;

/// Generated from `locales/` by `build.rs`.
#[allow(clippy::all, clippy::unwrap_used, missing_docs, reason = "generated")]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/l10n.rs"));
}

pub use card::brand_name;
pub use dates::{date, moment};
pub use generated::L10n as Language;
pub use generated::L10nLanguage as Texts;
pub use money::price;
pub use seller::seller;

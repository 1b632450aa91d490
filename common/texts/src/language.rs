//! The languages, and which of them a reader gets.

use std::sync::LazyLock;

use foundation::country::Country;
use icu_locale_core::{Locale, locale};

use crate::generated::{L10n, L10nLanguage};

static TEXTS: LazyLock<Vec<(L10n, L10nLanguage)>> =
    LazyLock::new(|| L10n::iter().map(|language| (*language, language.load())).collect());

impl L10n {
    /// Every language with its English name, in the order of the names.
    pub const NAMED: [(&'static str, Self); 5] = [
        ("English", Self::En),
        ("French", Self::Fr),
        ("German", Self::De),
        ("Japanese", Self::Ja),
        ("Spanish", Self::Es),
    ];

    /// The language of a request: that of its `lang` parameter or, without a known one, the preferred one of its
    /// `Accept-Language` (RFC 9110 §12.5.4); English if none is known.
    pub fn of_request(lang: Option<&str>, accept_language: Option<&str>) -> Self {
        lang.and_then(Self::of_tag).unwrap_or_else(|| Self::langneg(accept_language.unwrap_or_default()))
    }

    /// The language of a tag of BCP 47, such as `de` or `de-AT`.
    pub fn of_tag(tag: &str) -> Option<Self> {
        let code = tag.split('-').next().unwrap_or_default();
        Self::iter().find(|language| language.code().eq_ignore_ascii_case(code)).copied()
    }

    /// The language of a country (ISO 3166-1) in which nearly everybody reads the same one of these.
    pub fn of_country(country: Country) -> Option<Self> {
        match country.code() {
            "AT" | "DE" | "LI" => Some(Self::De),
            "AU" | "GB" | "IE" | "NZ" | "US" => Some(Self::En),
            "AR" | "BO" | "CL" | "CO" | "CR" | "CU" | "DO" | "EC" | "ES" | "GT" | "HN" | "MX" | "NI" | "PA" | "PE"
            | "PY" | "SV" | "UY" | "VE" => Some(Self::Es),
            "FR" | "MC" => Some(Self::Fr),
            "JP" => Some(Self::Ja),
            _ => None,
        }
    }

    /// The code of ISO 639, such as `de`.
    pub fn code(self) -> &'static str {
        match self {
            Self::De => "de",
            Self::En => "en",
            Self::Es => "es",
            Self::Fr => "fr",
            Self::Ja => "ja",
        }
    }

    /// The texts in this language.
    pub fn texts(self) -> &'static L10nLanguage {
        TEXTS.iter().find(|(language, _)| *language == self).map(|(_, texts)| texts).expect("each was loaded")
    }

    /// For dates and numbers. English dates have the day first.
    pub(crate) fn locale(self) -> Locale {
        match self {
            Self::De => locale!("de"),
            Self::En => locale!("en-GB"),
            Self::Es => locale!("es"),
            Self::Fr => locale!("fr"),
            Self::Ja => locale!("ja"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_language_has_a_name() {
        let mut named = L10n::NAMED.map(|(_, language)| language.code());
        named.sort_unstable();
        assert!(L10n::iter().map(|language| language.code()).eq(named), "{named:?}");
    }
}

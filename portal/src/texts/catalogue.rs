//! The translations.

use std::collections::HashMap;
use std::sync::LazyLock;

use ::texts::Language;

/// By section, then by the English text.
pub(super) type Catalogue = HashMap<String, HashMap<String, String>>;

/// The files of a language.
macro_rules! files {
    ($language:literal) => {
        [
            include_str!(concat!("../../locales/", $language, "/pages.json")),
            include_str!(concat!("../../locales/", $language, "/fields.json")),
            include_str!(concat!("../../locales/", $language, "/values.json")),
            include_str!(concat!("../../locales/", $language, "/messages.json")),
        ]
    };
}

/// English needs none. No two files of a language have the same section.
pub(super) const FILES: [(Language, [&str; 4]); 4] = [
    (Language::De, files!("de")),
    (Language::Es, files!("es")),
    (Language::Fr, files!("fr")),
    (Language::Ja, files!("ja")),
];

static CATALOGUES: LazyLock<Vec<(Language, Catalogue)>> = LazyLock::new(|| {
    let read = |files: [&str; 4]| -> Catalogue { files.into_iter().flat_map(sections).collect() };
    FILES.into_iter().map(|(language, files)| (language, read(files))).collect()
});

/// The sections of a file.
pub(super) fn sections(file: &str) -> Catalogue {
    serde_json::from_str(file).expect("a test reads each file")
}

/// The texts of a section, in English and in the language.
pub(super) fn texts(language: Language, section: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let own = CATALOGUES.iter().find(|(own, _)| *own == language);
    let texts = own.and_then(|(_, catalogue)| catalogue.get(section)).into_iter().flatten();
    texts.map(|(english, text)| (english.as_str(), text.as_str()))
}

/// The translation of a text, from the first of these sections that has it.
pub(super) fn find(language: Language, sections: &[&str], english: &str) -> Option<&'static str> {
    let (_, catalogue) = CATALOGUES.iter().find(|(own, _)| *own == language)?;
    sections.iter().find_map(|section| catalogue.get(*section)?.get(english)).map(String::as_str)
}

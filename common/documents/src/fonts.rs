//! The fonts of documents, from folders of the machine.

use std::path::PathBuf;

use parley::fontique::{Collection, CollectionOptions, SourceCache, SourceCacheOptions};
use parley::{FontContext, FontFamilyName};

/// The design of the texts, tried first, in this order.
const FIRST: [&str; 2] = ["Noto Sans", "DejaVu Sans"];
/// Then those of each other script, which are named after it.
const OF_SCRIPTS: &str = "Noto Sans ";
/// Then those of many scripts. The first one has no Hangul but a few syllables.
const LAST: [&str; 3] = ["Droid Sans Fallback", HANGUL, "Arial Unicode MS"];
/// The same for texts with Hangul, which would otherwise be in two designs.
const LAST_OF_HANGUL: [&str; 3] = [HANGUL, "Droid Sans Fallback", "Arial Unicode MS"];
const HANGUL: &str = "NanumGothic";
/// Families of [`OF_SCRIPTS`] for other purposes.
const UNSUITABLE: [&str; 4] = ["Mono", "Display", "Symbols", "Condensed"];

/// Fonts for every script that a name may have, as far as they are installed.
#[derive(Clone)]
pub struct Fonts {
    collection: Collection,
    sources: SourceCache,
    families: Vec<FontFamilyName<'static>>,
    families_of_hangul: Vec<FontFamilyName<'static>>,
}

/// No font was found.
#[derive(Debug, thiserror::Error)]
#[error("there are no fonts in {0:?}")]
pub struct NoFonts(Vec<PathBuf>);

impl Fonts {
    /// Loads all fonts of these folders and those within them.
    ///
    /// # Errors
    /// If there are none.
    pub fn load(folders: Vec<PathBuf>) -> Result<Self, NoFonts> {
        let mut collection = Collection::new(CollectionOptions { shared: true, system_fonts: false });
        collection.load_fonts_from_paths(&folders);
        let families = ordered(&mut collection, LAST);
        if families.is_empty() {
            return Err(NoFonts(folders));
        }
        let families_of_hangul = ordered(&mut collection, LAST_OF_HANGUL);
        let sources = SourceCache::new(SourceCacheOptions { shared: true });
        Ok(Self { collection, sources, families, families_of_hangul })
    }

    /// In the order in which a character of this text is looked up.
    pub(crate) fn families(&self, text: &str) -> &[FontFamilyName<'static>] {
        if text.chars().any(is_hangul) { &self.families_of_hangul } else { &self.families }
    }

    pub(crate) fn context(&self) -> FontContext {
        FontContext { collection: self.collection.clone(), source_cache: self.sources.clone() }
    }
}

/// The families that are used, those of many scripts in this order.
fn ordered(collection: &mut Collection, last: [&str; 3]) -> Vec<FontFamilyName<'static>> {
    let mut names: Vec<_> =
        collection.family_names().filter_map(|name| Some((rank(name, last)?, name.to_owned()))).collect();
    names.sort_unstable();
    names.into_iter().map(|(_, name)| FontFamilyName::Named(name.into())).collect()
}

/// The place of a family in the order; `None` if it is not used, such as one of pictograms.
fn rank(family: &str, last: [&str; 3]) -> Option<usize> {
    let place = |list: &[&str]| list.iter().position(|name| *name == family);
    let of_script = family.starts_with(OF_SCRIPTS) && !UNSUITABLE.iter().any(|word| family.contains(word));
    place(&FIRST).or(of_script.then_some(FIRST.len())).or(place(&last).map(|place| FIRST.len() + 1 + place))
}

/// Whether it is a letter or a syllable of Korean.
const fn is_hangul(c: char) -> bool {
    matches!(c, '\u{1100}'..='\u{11ff}' | '\u{3131}'..='\u{318e}' | '\u{a960}'..='\u{a97f}' | '\u{ac00}'..='\u{d7ff}')
}

//! The fonts of documents, from folders of the machine.

use std::path::PathBuf;

use parley::fontique::{Collection, CollectionOptions, SourceCache, SourceCacheOptions};
use parley::{FontContext, FontFamilyName};

/// The design of the texts, tried first, in this order.
const FIRST: [&str; 2] = ["Noto Sans", "DejaVu Sans"];
/// Then those of each other script, which are named after it.
const OF_SCRIPTS: &str = "Noto Sans ";
/// Then those of many scripts.
const LAST: [&str; 2] = ["Droid Sans Fallback", "Arial Unicode MS"];
/// Families of [`OF_SCRIPTS`] for other purposes.
const UNSUITABLE: [&str; 4] = ["Mono", "Display", "Symbols", "Condensed"];

/// Fonts for every script that a name may have, as far as they are installed.
#[derive(Clone)]
pub struct Fonts {
    collection: Collection,
    sources: SourceCache,
    families: Vec<FontFamilyName<'static>>,
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
        let mut names: Vec<_> =
            collection.family_names().filter_map(|name| Some((rank(name)?, name.to_owned()))).collect();
        names.sort_unstable();
        if names.is_empty() {
            return Err(NoFonts(folders));
        }
        let families = names.into_iter().map(|(_, name)| FontFamilyName::Named(name.into())).collect();
        Ok(Self { collection, sources: SourceCache::new(SourceCacheOptions { shared: true }), families })
    }

    /// In the order in which a character is looked up.
    pub(crate) fn families(&self) -> &[FontFamilyName<'static>] {
        &self.families
    }

    pub(crate) fn context(&self) -> FontContext {
        FontContext { collection: self.collection.clone(), source_cache: self.sources.clone() }
    }
}

/// The place of a family in the order; `None` if it is not used, such as one of pictograms.
fn rank(family: &str) -> Option<usize> {
    let place = |list: &[&str]| list.iter().position(|name| *name == family);
    let of_script = family.starts_with(OF_SCRIPTS) && !UNSUITABLE.iter().any(|word| family.contains(word));
    place(&FIRST).or(of_script.then_some(FIRST.len())).or(place(&LAST).map(|place| FIRST.len() + 1 + place))
}

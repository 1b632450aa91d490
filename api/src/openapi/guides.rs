//! The guides and reference pages of the folder docs that concern merchants, as pages below /docs.

use maud::{Markup, html};

use super::markdown;

/// A page by its path below /docs, which is also that of its Markdown.
pub(super) struct Guide {
    pub(super) path: &'static str,
    text: &'static str,
}

macro_rules! guides {
    ($($path:literal)*) => {
        [$(Guide { path: $path, text: include_str!(concat!("../../../docs/", $path, ".md")) },)*]
    };
}

const GUIDES: [Guide; 8] = guides!["guide/quick-start" "guide/concepts" "guide/payments" "guide/cards" "guide/billing"
    "guide/webhooks" "guide/going-live" "guide/stripe"];
const REFERENCE: [Guide; 5] = guides!["api" "payments" "billing" "webhooks" "elements"];

/// All pages.
pub(super) fn all() -> impl Iterator<Item = Guide> {
    GUIDES.into_iter().chain(REFERENCE)
}

impl Guide {
    pub(super) fn title(&self) -> String {
        markdown::title(self.text)
    }

    /// The content. What a link leads to beyond these pages is not served, so only its text is shown.
    pub(super) fn html(&self) -> Markup {
        markdown::with_links(self.text, |link| {
            if link.starts_with('#') || link.starts_with("https://") {
                return Some(link.to_owned());
            }
            let (target, anchor) = link.split_once('#').map_or((link, None), |(target, anchor)| (target, Some(anchor)));
            let path = join(self.path, target.strip_suffix(".md")?);
            let address = all().any(|guide| guide.path == path).then(|| format!("/docs/{path}"))?;
            Some(anchor.map_or_else(|| address.clone(), |anchor| format!("{address}#{anchor}")))
        })
    }
}

/// The path of a link on the page `from`.
fn join(from: &str, link: &str) -> String {
    let mut parts: Vec<_> = from.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    parts.join("/")
}

/// The lists of all pages.
pub(super) fn links() -> Markup {
    html! {
        @for (name, guides) in [("Guides", GUIDES.as_slice()), ("Reference", REFERENCE.as_slice())] {
            strong { (name) }
            ul {
                @for guide in guides { li { a href={ "/docs/" (guide.path) } { (guide.title()) } } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use testkit::tools::project_root;

    use super::*;

    #[test]
    fn every_guide_is_served_and_no_link_is_broken() {
        let folder = fs::read_dir(project_root().join("docs/guide")).expect("guides");
        let files = folder.map(|file| file.expect("a file").file_name().to_string_lossy().into_owned());
        let served: BTreeSet<_> = all().map(|guide| format!("{}.md", guide.path)).collect();
        for file in files {
            assert!(served.contains(&format!("guide/{file}")), "{file}");
        }
        let (mut seen, mut within) = (0, 0);
        for guide in all() {
            let html = guide.html().into_string();
            assert!(!guide.title().is_empty() && !html.contains("<script") && !html.contains("<img"), "{}", guide.path);
            for link in html.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
                seen += 1;
                let Some(link) = link.strip_prefix("/docs/").or(link.starts_with('#').then_some(link)) else {
                    continue;
                };
                let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
                let target = all().find(|page| page.path == if path.is_empty() { guide.path } else { path });
                let target = target.unwrap_or_else(|| panic!("{}: {link}", guide.path)).html().into_string();
                assert!(anchor.is_empty() || target.contains(&format!(" id=\"{anchor}\"")), "{}: {link}", guide.path);
                within += 1;
            }
        }
        assert!(seen > within && within > 80, "{within} of {seen} links");
    }
}

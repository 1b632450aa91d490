//! Renders Markdown, in which text that looks like HTML stays text.

use std::collections::BTreeMap;

use maud::{Markup, PreEscaped};
use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html};

/// Renders the Markdown of a description.
pub(super) fn render(text: &str) -> Markup {
    with_links(text, |link| Some(link.to_owned()))
}

/// Renders Markdown with anchors for its headings. `resolve` returns the address of a link, or `None` to show its text
/// alone.
pub(super) fn with_links(text: &str, resolve: impl Fn(&str) -> Option<String>) -> Markup {
    let mut anchors = anchors(text).into_iter();
    let mut is_dropped = false;
    let events = Parser::new_ext(text, Options::ENABLE_TABLES).filter_map(|event| {
        if let Event::Html(text) | Event::InlineHtml(text) = event {
            return Some(Event::Text(text));
        }
        if let Event::Start(Tag::Heading { level, classes, attrs, .. }) = event {
            let id = anchors.next().map(CowStr::from);
            return Some(Event::Start(Tag::Heading { level, id, classes, attrs }));
        }
        if let Event::Start(Tag::Link { link_type, dest_url, title, id }) = event {
            let resolved = resolve(&dest_url);
            is_dropped = resolved.is_none();
            return resolved.map(|dest| Event::Start(Tag::Link { link_type, dest_url: dest.into(), title, id }));
        }
        let is_end = matches!(event, Event::End(TagEnd::Link));
        Some(event).filter(|_| !(is_end && is_dropped))
    });
    let mut rendered = String::new();
    html::push_html(&mut rendered, events);
    PreEscaped(rendered)
}

/// The text of the first heading.
pub(super) fn title(text: &str) -> String {
    headings(text).into_iter().next().unwrap_or_default()
}

fn headings(text: &str) -> Vec<String> {
    let (mut headings, mut is_heading) = (Vec::new(), false);
    for event in Parser::new(text) {
        if let Event::Start(Tag::Heading { .. }) = event {
            is_heading = true;
            headings.push(String::new());
        } else if let Event::End(TagEnd::Heading(_)) = event {
            is_heading = false;
        } else if let (true, Event::Text(part) | Event::Code(part)) = (is_heading, event) {
            headings.last_mut().into_iter().for_each(|heading: &mut String| heading.push_str(&part));
        }
    }
    headings
}

/// The anchors of the headings, as the links in the documents name them: a repeated heading gets a number.
fn anchors(text: &str) -> Vec<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let anchor = |heading: String| {
        let kept = heading.to_lowercase().replace(' ', "-");
        let kept: String = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect();
        let times = seen.entry(kept.clone()).or_default();
        *times += 1;
        if *times == 1 { kept } else { format!("{kept}-{}", *times - 1) }
    };
    headings(text).into_iter().map(anchor).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_markup_is_rendered() {
        let html = render("a `<b>` & c <script>alert(1)</script>\n\nd\n- e");
        let expected = "<p>a <code>&lt;b&gt;</code> &amp; c &lt;script&gt;alert(1)&lt;/script&gt;</p>\n<p>d</p>\n\
                        <ul>\n<li>e</li>\n</ul>\n";
        assert_eq!(html.into_string(), expected);
        assert_eq!(render("<img src=x>").into_string(), "&lt;img src=x&gt;");
    }

    #[test]
    fn headings_have_anchors_and_links_are_resolved() {
        let text = "# `A` b, c\n\n[d](e.md) [f](g)\n\n# `A` b, c";
        let html = with_links(text, |link| link.strip_suffix(".md").map(str::to_owned));
        let expected = "<h1 id=\"a-b-c\"><code>A</code> b, c</h1>\n<p><a href=\"e\">d</a> f</p>\n\
                        <h1 id=\"a-b-c-1\"><code>A</code> b, c</h1>\n";
        assert_eq!(html.into_string(), expected);
        assert_eq!(title(text), "A b, c");
    }
}

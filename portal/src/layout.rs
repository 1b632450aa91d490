//! The frame of the pages in an account.

use axum::response::Html;
use domain::accounts::Mode;
use maud::{Markup, html};

use crate::catalog::LISTS;
use crate::document::document;
use crate::session::Work;
use crate::texts::text;

/// A page in an account. `current` is the address of the navigation's link to it.
pub(crate) fn page(work: &Work, current: &str, title: &str, content: &Markup) -> Html<String> {
    let mode = work.mode.name();
    let lists = LISTS.iter().map(|list| (list.path, list.title));
    let links = std::iter::once(("", "Home")).chain(lists).chain([("activity", "Activity")]);
    let body = html! {
        a.skip href="#content" { (text("Skip to content")) }
        header.top {
            p.account { (work.name) }
            p.mode.live[work.mode == Mode::Live] {
                @match work.mode { Mode::Test => (text("Test data")), Mode::Live => (text("Live")) }
            }
            @if work.has_other {
                @match work.mode {
                    Mode::Test => a href="/live" { (text("Switch to live")) },
                    Mode::Live => a href="/test" { (text("Switch to test")) },
                }
            }
            form method="post" action="/sign-out" {
                span.user { (work.user.email) " (" (text(work.user.role.name())) ")" }
                button.plain name="action" value="sign-out" { (text("Sign out")) }
            }
        }
        nav aria-label=(text("Main")) {
            ul {
                @for (path, title) in links {
                    li {
                        a href={ "/" (mode) @if !path.is_empty() { "/" (path) } }
                            aria-current=[(path == current).then_some("page")] { (text(title)) }
                    }
                }
            }
        }
        main #content { (content) }
    };
    document(title, &body)
}

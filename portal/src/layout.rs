//! The frame of the pages in an account.

use axum::response::Html;
use domain::accounts::Mode;
use maud::{Markup, html};

use crate::catalog::{LISTS, Menu};
use crate::document::document;
use crate::session::AccountSession;
use crate::texts::text;

/// A link of the navigation: its path, its text, and those of its menu.
struct Link {
    path: &'static str,
    title: &'static str,
    menu: Vec<(&'static str, &'static str)>,
}

fn links(mode: Mode) -> Vec<Link> {
    let link = |path, title| Link { path, title, menu: Vec::new() };
    let of_menu = |menu: Menu| LISTS.iter().filter(move |list| list.menu == menu);
    let mut links = vec![link("", "Home")];
    links.extend(of_menu(Menu::Main).map(|list| link(list.path, list.title)));
    let mut menu = vec![("keys", "API keys")];
    menu.extend(of_menu(Menu::Developers).map(|list| (list.path, list.title)));
    menu.push(("requests", "Requests"));
    if mode == Mode::Test {
        menu.push(("clock", "Test clock"));
    }
    links.push(Link { path: "developers", title: "Developers", menu });
    let menu = vec![("team", "Team"), ("activity", "Activity"), ("security", "Security")];
    links.push(Link { path: "settings", title: "Settings", menu });
    links
}

/// A page in an account. `current` is the path of the navigation's link to it.
pub(crate) fn page(session: &AccountSession, current: &str, title: &str, content: &Markup) -> Html<String> {
    let mode = session.mode.name();
    let body = html! {
        a.skip href="#content" { (text("Skip to content")) }
        header.top {
            p.account { (session.name) }
            p.mode.live[session.mode == Mode::Live] {
                @match session.mode { Mode::Test => (text("Test data")), Mode::Live => (text("Live")) }
            }
            @if session.has_other {
                @match session.mode {
                    Mode::Test => a href="/live" { (text("Switch to live")) },
                    Mode::Live => a href="/test" { (text("Switch to test")) },
                }
            }
            form method="post" action="/sign-out" {
                span.user { (session.user.email) " (" (text(session.user.role.name())) ")" }
                button.plain name="action" value="sign-out" { (text("Sign out")) }
            }
        }
        nav aria-label=(text("Main")) {
            // On a phone the links are behind it; elsewhere it is not shown.
            button.plain type="button" popovertarget="menu" { (text("Menu")) }
            ul #menu popover {
                @for Link { path, title, menu } in links(session.mode) {
                    @let is_open = path == current || menu.iter().any(|(path, _)| *path == current);
                    li {
                        (link(mode, path, title, current))
                        @if !menu.is_empty() {
                            ul.menu.open[is_open] {
                                @for (path, title) in menu { li { (link(mode, path, title, current)) } }
                            }
                        }
                    }
                }
            }
        }
        main #content { (content) }
    };
    document(title, &body)
}

fn link(mode: &str, path: &str, title: &'static str, current: &str) -> Markup {
    html! {
        a href={ "/" (mode) @if !path.is_empty() { "/" (path) } } aria-current=[(path == current).then_some("page")] {
            (text(title))
        }
    }
}

//! The HTML document around every page.

use axum::response::Html;
use maud::{DOCTYPE, Markup, html};

use crate::assets;
use crate::texts::language;

/// A complete document.
pub(crate) fn document(title: &str, body: &Markup) -> Html<String> {
    let document = html! {
        (DOCTYPE)
        html lang=(language().code()) {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="robots" content="noindex";
                title { (title) }
                link rel="icon" type="image/svg+xml" href=(assets::ICON);
                link rel="stylesheet" href=(assets::STYLE);
                script src=(assets::SCRIPT) defer {}
            }
            body { (body) }
        }
    };
    Html(document.into_string())
}

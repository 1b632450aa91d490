//! The first page.

use axum::extract::{Path, State};
use axum::response::{Html, Redirect};
use domain::accounts::Mode;
use maud::html;
use serde_json::Value;

use crate::app::App;
use crate::catalog::List;
use crate::failure::Failure;
use crate::layout::page;
use crate::lists::table;
use crate::session::{User, Work};
use crate::texts::text;

/// What the page shows of each list.
const LATEST: [(&str, &str, &str); 3] = [
    ("payments", "Latest payments", "limit=5"),
    ("invoices", "Open invoices", "status=open&limit=5"),
    ("disputes", "Disputes that need a response", "status=needs_response&limit=5"),
];

/// Leads to test data if the merchant has any: there, nothing costs money.
pub(crate) async fn first(State(app): State<App>, User(user): User) -> Redirect {
    let has_test = Work::begin(&app, user, Mode::Test.name()).await.is_ok();
    Redirect::to(if has_test { "/test" } else { "/live" })
}

pub(crate) async fn home(
    State(app): State<App>,
    User(user): User,
    Path(mode): Path<String>,
) -> Result<Html<String>, Failure> {
    let work = Work::begin(&app, user, &mode).await?;
    let mut sections = Vec::new();
    for (path, title, query) in LATEST {
        let list = List::find(path).ok_or(Failure::NotFound)?;
        let found = app.get(&work.caller, &format!("/v1/{}?{query}", list.resource)).await?;
        sections.push((list, title, query, found));
    }
    let content = html! {
        h1 { (text("Home")) }
        @for (list, title, query, found) in &sections {
            @let rows = found["data"].as_array().map_or(&[] as &[Value], Vec::as_slice);
            section {
                h2 { (text(title)) }
                @if rows.is_empty() { p.empty { (text("None.")) } } @else { (table(&work, list, rows)) }
                p { a href={ "/" (work.mode.name()) "/" (list.path) "?" (query) } { (text("All")) " " (text(list.title)) } }
            }
        }
    };
    Ok(page(&work, "", text("Home"), &content))
}

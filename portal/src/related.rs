//! What belongs to an object.

use futures_util::future::try_join_all;
use maud::{Markup, html};
use serde_json::Value;

use crate::app::App;
use crate::catalog::Cell::{self, Link, Status, Time, Words};
use crate::catalog::List;
use crate::failure::Failure;
use crate::lists::table;
use crate::session::AccountSession;
use crate::texts::{labelled, text};

/// Rows of each.
const ROWS: &str = "5";

const ATTEMPTS: [(&str, Cell); 5] = [
    ("Attempted", Time("attemptedAt")),
    ("Status", Status),
    ("Reason", Words("declineCode")),
    ("Payment", Link("paymentId")),
    ("Next attempt", Time("nextAttemptAt")),
];

/// A section for each list that has rows of this object.
pub(crate) async fn related(app: &App, session: &AccountSession, list: &List, id: &str) -> Result<Markup, Failure> {
    let mut sections = Vec::new();
    if list.has_attempts {
        let found = app.get(&session.caller, &format!("/v1/{}/{id}/attempts?limit={ROWS}", list.resource)).await?;
        sections.push(section(session, "Collection attempts", &ATTEMPTS, &found, None));
    }
    let found = list.related.iter().map(async |(path, filter)| {
        let list = List::find(path).ok_or(Failure::NotFound)?;
        let found = app.get(&session.caller, &format!("/v1/{}?{filter}={id}&limit={ROWS}", list.resource)).await?;
        let address = format!("/{}/{path}?{filter}={id}", session.mode.name());
        Ok::<_, Failure>(section(session, list.title, list.columns, &found, Some(&address)))
    });
    sections.extend(try_join_all(found).await?);
    Ok(html! { @for section in &sections { (section) } })
}

fn section(
    session: &AccountSession,
    title: &'static str,
    columns: &[(&'static str, Cell)],
    found: &Value,
    all: Option<&str>,
) -> Markup {
    let rows = found["data"].as_array().map_or(&[] as &[Value], Vec::as_slice);
    html! {
        @if !rows.is_empty() {
            section {
                h2 { (text(title)) }
                (table(session, title, columns, rows))
                @if let Some(address) = all.filter(|_| found["hasMore"] == true) {
                    p { a href=(address) { (labelled(text("All"), text(title))) } }
                }
            }
        }
    }
}

//! The requests of the merchant's programs.

use axum::response::Html;
use domain::accounts::key_names;
use domain::requests::{Entry, RETENTION_DAYS, find, list};
use foundation::id::RequestId;
use maud::{Markup, html};

use super::{parameter, table};
use crate::app::App;
use crate::failure::Failure;
use crate::fields::time;
use crate::layout::page;
use crate::session::AccountSession;
use crate::texts::{filled, text, words_of, words_of_code};

/// Requests on a page.
const PAGE: i64 = 50;

pub(super) async fn show(app: &App, session: &AccountSession, query: &str) -> Result<Html<String>, Failure> {
    let (searched, refused) = (parameter(query, "q"), !parameter(query, "refused").is_empty());
    let (db, account) = (app.api.pool(), session.caller.account_id);
    let entries = match (searched.is_empty(), searched.parse()) {
        (true, _) => list(db, account, parameter(query, "before").parse().ok(), refused, PAGE).await,
        (false, Ok(id)) => find(db, account, id).await.map(|entry| entry.into_iter().collect()),
        (false, Err(_)) => Ok(Vec::new()),
    };
    let entries = entries.map_err(Failure::internal)?;
    let address = format!("/{}/requests", session.mode.name());
    let rows = html! { @for entry in &entries { (row(&address, entry)) } };
    let is_full = i64::try_from(entries.len()).is_ok_and(|count| count == PAGE);
    let content = html! {
        h1 { (text("Requests")) }
        p { (filled("Requests of your API keys, for {days} days. New ones are here within seconds.", &[("days", &RETENTION_DAYS)])) }
        form.filters method="get" action=(address) role="search" {
            label for="q" { (text("Request-Id")) }
            input #q type="search" name="q" value=(searched) maxlength="40";
            label { input type="checkbox" name="refused" value="yes" checked[refused]; (text("Refused only")) }
            button { (text("Apply")) }
        }
        @if entries.is_empty() { p.empty { (text("Nothing found.")) } }
        @else { (table("Requests", &["Time", "Request", "Status", "Error", "Duration", "ID"], &rows)) }
        @if let Some(last) = entries.last().filter(|_| is_full) {
            p.pages { a href={ (address) "?before=" (last.id) @if refused { "&refused=yes" } } { (text("Next page")) } }
        }
    };
    Ok(page(session, "requests", text("Requests"), &content))
}

pub(super) async fn show_one(app: &App, session: &AccountSession, id: &str) -> Result<Html<String>, Failure> {
    let id: RequestId = id.parse().map_err(|_| Failure::NotFound)?;
    let db = app.api.pool();
    let found = find(db, session.caller.account_id, id).await.map_err(Failure::internal)?;
    let entry = &found.ok_or(Failure::NotFound)?;
    let named = key_names(db, session.user.merchant_id, &[entry.key]).await.map_err(Failure::internal)?;
    let content = html! {
        p.kind { (text("Request")) }
        h1 { (entry.method) " " (entry.path) }
        dl {
            dt { (text("ID")) } dd { (entry.id) }
            dt { (text("Time")) } dd { (when(entry)) }
            dt { (text("Status")) } dd { (state(entry)) }
            @if let Some(code) = &entry.code { dt { (text("Error")) } dd { (words_of_code("code", code)) } }
            dt { (text("Duration")) } dd { (entry.duration_ms) " ms" }
            dt { (text("API key")) } dd { (entry.key) @for (_, name) in &named { " " (name) } }
        }
    };
    Ok(page(session, "requests", text("Request"), &content))
}

fn row(address: &str, entry: &Entry) -> Markup {
    let link = format!("{address}/{}", entry.id);
    html! {
        tr {
            td { a href=(link) { (when(entry)) } }
            td { (entry.method) " " (entry.path) }
            td { (state(entry)) }
            td { (words_of("code", entry.code.as_deref().unwrap_or_default())) }
            td { (entry.duration_ms) " ms" }
            td { a href=(link) { (entry.id) } }
        }
    }
}

fn when(entry: &Entry) -> Markup {
    html! { @if let Some(at) = entry.id.time() { (time(&at.to_string().into())) } }
}

fn state(entry: &Entry) -> Markup {
    let kind = if entry.status < 400 { "good" } else { "bad" };
    html! { span class={ "badge " (kind) } { (entry.status) } }
}

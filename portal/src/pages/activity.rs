//! What users did.

use std::collections::BTreeSet;

use axum::response::Html;
use domain::accounts::key_names;
use domain::users::{ActionFilter, Entry, list_actions};
use foundation::id::KeyId;
use foundation::time::Timestamp;
use maud::{Markup, html};
use url::form_urlencoded::Serializer;

use super::{parameter, table};
use crate::actions::Action;
use crate::address::of_object;
use crate::app::App;
use crate::failure::Failure;
use crate::fields::time;
use crate::filters::day;
use crate::layout::page;
use crate::session::AccountSession;
use crate::texts::{text, words_of};

/// Entries on a page.
const PAGE: i64 = 100;
/// What the address of the page can have, besides the last entry of the page before.
const PARAMETERS: [&str; 4] = ["q", "action", "from", "to"];
/// What a new user did is in the log without a form of the portal.
const WITHOUT_FORM: &str = "team.accept";

pub(super) async fn show(app: &App, session: &AccountSession, query: &str) -> Result<Html<String>, Failure> {
    let (db, merchant) = (app.api.pool(), session.user.merchant_id);
    let (entries, problem) = match filter(query) {
        Ok(filter) => (list_actions(db, merchant, &filter, PAGE).await.map_err(Failure::internal)?, None),
        Err(problem) => (Vec::new(), Some(problem)),
    };
    let key = |object: &str| object.parse::<KeyId>().ok();
    let keys: Vec<_> = entries.iter().filter_map(|entry| key(entry.object.as_deref()?)).collect();
    let names = key_names(db, merchant, &keys).await.map_err(Failure::internal)?;
    let name =
        |object: &str| names.iter().find(|(named, _)| Some(*named) == key(object)).map(|(_, name)| name.as_str());
    let rows = html! {
        @for entry in &entries { (row(entry, name(entry.object.as_deref().unwrap_or_default()))) }
    };
    let address = format!("/{}/activity", session.mode.name());
    let is_full = i64::try_from(entries.len()).is_ok_and(|count| count == PAGE);
    let content = html! {
        h1 { (text("Activity")) }
        (form(query, &address))
        @if let Some(problem) = &problem { p.problem role="alert" { (problem) } }
        @if !entries.is_empty() { (table("Activity", &["Time", "User", "Action", "Object", "Data", "Result"], &rows)) }
        @else if query.is_empty() { p.empty { (text("Nothing was changed in the portal yet.")) } }
        @else { p.empty { (text("Nothing found.")) } }
        p.pages {
            @if !parameter(query, "before").is_empty() { a href={ (address) "?" (other_page(query, None)) } { (text("First page")) } }
            @if let Some(last) = entries.last().filter(|_| is_full) {
                a href={ (address) "?" (other_page(query, Some(last))) } { (text("Next page")) }
            }
        }
    };
    Ok(page(session, "activity", text("Activity"), &content))
}

/// Which entries the query asks for.
///
/// # Errors
/// What is wrong, for the user.
fn filter(query: &str) -> Result<ActionFilter, String> {
    let given = |name: &str| Some(parameter(query, name)).filter(|value| !value.is_empty());
    let limit = |name: &str, later: u64| given(name).map(|date| day(&date, later)).transpose();
    let (email, object) = match given("q") {
        Some(email) if email.contains('@') => (Some(email), None),
        object => (None, object),
    };
    let microseconds = given("before").and_then(|last| last.parse::<i64>().ok()).filter(|last| *last >= 0);
    let last = microseconds.map(Timestamp::from_microsecond);
    let before = [limit("to", 1)?, last].into_iter().flatten().min();
    Ok(ActionFilter { email, action: given("action"), object, from: limit("from", 0)?, before })
}

/// The query of the first page, or of the page after this entry, with the same filters.
fn other_page(query: &str, last: Option<&Entry>) -> String {
    let mut other = Serializer::new(String::new());
    other.extend_pairs(
        PARAMETERS.map(|name| (name, parameter(query, name))).iter().filter(|(_, value)| !value.is_empty()),
    );
    other.extend_pairs(last.map(|last| ("before", last.began_at.jiff().as_microsecond().to_string())));
    other.finish()
}

fn form(query: &str, address: &str) -> Markup {
    let actions: BTreeSet<_> = Action::all().map(Action::record_name).chain([WITHOUT_FORM.to_owned()]).collect();
    let chosen = parameter(query, "action");
    html! {
        form.filters method="get" action=(address) role="search" {
            div.field {
                label for="q" { (text("Search")) }
                input #q type="search" name="q" value=(parameter(query, "q")) maxlength="254" placeholder=(text("E-mail, ID of the object"));
            }
            div.field {
                label for="action" { (text("Action")) }
                select #action name="action" {
                    option value="" { (text("All")) }
                    @for action in &actions { option value=(action) selected[*action == chosen] { (words_of("activity", action)) } }
                }
            }
            @for (name, label) in [("from", "From"), ("to", "To")] {
                div.field {
                    label for=(name) { (text(label)) }
                    input id=(name) type="date" name=(name) value=(parameter(query, name)) maxlength="10";
                }
            }
            button { (text("Apply")) }
        }
    }
}

fn row(entry: &Entry, name: Option<&str>) -> Markup {
    html! {
        tr {
            td { (time(&entry.began_at.to_string().into())) }
            td { (entry.email) }
            td { (words_of("activity", &entry.action)) }
            td {
                a href=[address(entry)] { (entry.object.as_deref().unwrap_or_default()) }
                @if let Some(name) = name { " " (name) }
            }
            td { (words_of("mode", entry.mode.name())) }
            td {
                @match entry.status {
                    Some(202) => (text("Requested")),
                    Some(..300) => (text("Done")),
                    Some(_) => (text("Refused")),
                    None => (text("Not known")),
                }
            }
        }
    }
}

/// The page of the object, or the one that shows it.
fn address(entry: &Entry) -> Option<String> {
    let object = entry.object.as_deref()?;
    let page = entry.action.split('.').next().filter(|page| ["keys", "settings", "team"].contains(page));
    of_object(entry.mode, object).or_else(|| Some(format!("/{}/{}", entry.mode.name(), page?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_becomes_a_filter_and_the_query_of_the_next_page() {
        let filter = |query| filter(query).map(|filter| format!("{filter:?}"));
        let all = filter("").expect("a filter");
        assert_eq!(filter("q=&action=&from=&to=&before=x&other=y").as_ref(), Ok(&all));
        for (query, part) in [
            ("q=ada%40shop.example", "email: Some(\"ada@shop.example\")"),
            ("q=pay_1", "object: Some(\"pay_1\")"),
            ("q=pay%00_1", "object: Some(\"pay_1\")"),
            ("action=keys.new", "action: Some(\"keys.new\")"),
            ("from=2026-01-30", "from: Some(2026-01-30T00:00:00.000Z)"),
            ("to=2026-01-30", "before: Some(2026-01-31T00:00:00.000Z)"),
            ("to=2026-01-30&before=1769731200000001", "before: Some(2026-01-30T00:00:00.000Z)"),
        ] {
            let filter = filter(query).expect("a filter");
            assert!(filter.contains(part) && filter != all, "{query}: {filter}");
        }
        assert_eq!(filter("from=yesterday"), Err("Enter a date such as 2026-01-31.".to_owned()));
        let last = Entry {
            began_at: Timestamp::from_microsecond(1_769_731_200_000_001),
            mode: domain::accounts::Mode::Test,
            email: "ada@shop.example".to_owned(),
            action: "keys.new".to_owned(),
            object: Some("key_1".to_owned()),
            status: Some(200),
        };
        let next = other_page("before=7&q=ada%40shop.example&to=&x=y", Some(&last));
        assert_eq!(next, "q=ada%40shop.example&before=1769731200000001");
        assert_eq!(other_page("before=7&action=keys.new", None), "action=keys.new");
        assert_eq!(address(&last).as_deref(), Some("/test/keys"));
    }
}

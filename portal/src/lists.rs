//! The lists of objects, with the filters and pages of /v1, and as CSV.

use axum::http::HeaderValue;
use axum::http::header::CONTENT_DISPOSITION;
use axum::response::{IntoResponse as _, Redirect, Response};
use maud::{Markup, html};
use serde_json::Value;
use url::form_urlencoded::{Serializer, parse};

use crate::actions::Action;
use crate::address::of_object;
use crate::app::App;
use crate::catalog::Cell::{self, Amount, Inner, Status, Text, Time, Words};
use crate::catalog::{List, Search};
use crate::failure::Failure;
use crate::fields::{amount, status, time};
use crate::layout::page;
use crate::session::Work;
use crate::texts::{text, words};

/// Objects on a page.
const PAGE: &str = "25";

/// What the address of a list asks for.
#[derive(Default)]
struct Asked {
    search: String,
    /// Filters of /v1.
    filters: Vec<(String, String)>,
    after: Option<String>,
}

impl Asked {
    fn parse(list: &List, query: &str) -> Self {
        let mut asked = Self::default();
        for (name, value) in parse(query.as_bytes()).filter(|(_, value)| !value.is_empty()) {
            match name.as_ref() {
                "q" => value.trim().clone_into(&mut asked.search),
                "startingAfter" => asked.after = Some(value.into_owned()),
                name if name == "status" || list.filters.contains(&name) => {
                    asked.filters.push((name.to_owned(), value.into_owned()));
                }
                _ => {}
            }
        }
        asked
    }

    /// The query of /v1.
    fn query(&self, list: &List, limit: Option<&str>) -> String {
        let mut query = Serializer::new(String::new());
        query.extend_pairs(self.filters.iter());
        let is_last4 = self.search.len() == 4 && self.search.bytes().all(|byte| byte.is_ascii_digit());
        let Search { email, digits, other } = list.search;
        let by = email.filter(|_| self.search.contains('@')).or(digits.filter(|_| is_last4)).or(other);
        if let Some(name) = by.filter(|_| !self.search.is_empty()) {
            query.append_pair(name, &self.search);
        }
        if let Some(limit) = limit {
            query.append_pair("limit", limit);
            query.extend_pairs(self.after.iter().map(|after| ("startingAfter", after)));
        }
        query.finish()
    }

    /// The query of a page, after this object.
    fn page(&self, after: Option<&str>) -> String {
        let mut query = Serializer::new(String::new());
        query.extend_pairs(self.filters.iter());
        if !self.search.is_empty() {
            query.append_pair("q", &self.search);
        }
        query.extend_pairs(after.map(|after| ("startingAfter", after)));
        query.finish()
    }

    fn filter(&self, name: &str) -> &str {
        self.filters.iter().find(|(own, _)| own == name).map_or("", |(_, value)| value)
    }
}

/// The page of a list, or its CSV file.
pub(crate) async fn show(
    app: &App,
    work: &Work,
    list: &'static List,
    query: &str,
    is_csv: bool,
) -> Result<Response, Failure> {
    let asked = Asked::parse(list, query);
    if is_csv {
        return csv(app, work, list, &asked).await;
    }
    if let Some(address) = of_object(work.mode, &asked.search) {
        return Ok(Redirect::to(&address).into_response());
    }
    let found = app.get(&work.caller, &format!("/v1/{}?{}", list.resource, asked.query(list, Some(PAGE)))).await;
    let found = match found {
        // What was searched for cannot exist.
        Err(Failure::Invalid(_)) => Value::Null,
        other => other?,
    };
    Ok(page(work, list.path, text(list.title), &content(work, list, &asked, &found)).into_response())
}

async fn csv(app: &App, work: &Work, list: &List, asked: &Asked) -> Result<Response, Failure> {
    let path = format!("/v1/{}?{}", list.resource, asked.query(list, None));
    let mut response = app.respond(&work.caller, &path, "text/csv").await?;
    if response.status().is_success() {
        let name = format!("attachment; filename=\"{}.csv\"", list.path);
        let name = HeaderValue::try_from(name).map_err(Failure::internal)?;
        response.headers_mut().insert(CONTENT_DISPOSITION, name);
    }
    Ok(response)
}

fn content(work: &Work, list: &List, asked: &Asked, found: &Value) -> Markup {
    let rows = found["data"].as_array().map_or(&[] as &[Value], Vec::as_slice);
    let address = format!("/{}/{}", work.mode.name(), list.path);
    html! {
        h1 { (text(list.title)) }
        @if let Some(action) = Action::find(list.path, "new").filter(|action| action.is_offered(work)) {
            p { a.button href={ (address) "/new" } { (text(action.label)) } }
        }
        form.filters method="get" action=(address) role="search" {
            @for (name, value) in asked.filters.iter().filter(|(name, _)| name != "status") {
                input type="hidden" name=(name) value=(value);
            }
            label for="q" { (text("Search")) }
            input #q type="search" name="q" value=(asked.search) maxlength="254";
            @if !list.statuses.is_empty() {
                label for="status" { (text("Status")) }
                select #status name="status" {
                    option value="" { (text("All")) }
                    @for status in list.statuses {
                        option value=(status) selected[asked.filter("status") == *status] { (words(status)) }
                    }
                }
            }
            button { (text("Apply")) }
            a.button href={ (address) ".csv?" (asked.page(None)) } { (text("CSV")) }
        }
        @if rows.is_empty() { p.empty { (text("Nothing found.")) } } @else { (table(work, list, rows)) }
        p.pages {
            @if asked.after.is_some() { a href={ (address) "?" (asked.page(None)) } { (text("First page")) } }
            @if let Some(next) = found["nextCursor"].as_str() {
                a href={ (address) "?" (asked.page(Some(next))) } { (text("Next page")) }
            }
        }
    }
}

/// Rows that lead to the page of their object.
pub(crate) fn table(work: &Work, list: &List, rows: &[Value]) -> Markup {
    html! {
        div.scroll role="region" aria-label=(text(list.title)) tabindex="0" {
            table {
                thead { tr {
                    @for (heading, _) in list.columns { th scope="col" { (text(heading)) } }
                    th scope="col" { (text("ID")) }
                } }
                tbody {
                    @for row in rows {
                        @let id = row["id"].as_str().unwrap_or_default();
                        @let address = of_object(work.mode, id);
                        tr {
                            @for (column, (_, cell)) in list.columns.iter().enumerate() {
                                // On a phone only the first columns are visible.
                                td { @if column == 0 { a href=[&address] { (shown(cell, row)) } } @else { (shown(cell, row)) } }
                            }
                            td { a href=[&address] { (id) } }
                        }
                    }
                }
            }
        }
    }
}

fn shown(cell: &Cell, row: &Value) -> Markup {
    match cell {
        Amount(field) => html! { (amount(row, field)) },
        Status => status(&row["status"]),
        Time(field) => time(&row[*field]),
        Text(field) => html! { (row[*field].as_str().unwrap_or_default()) },
        Words(field) => html! { (words(row[*field].as_str().unwrap_or_default())) },
        Inner(object, field) => html! { (row[*object][*field].as_str().unwrap_or_default()) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(path: &str, address: &str) -> String {
        let list = List::find(path).expect("a list");
        Asked::parse(list, address).query(list, Some("25"))
    }

    #[test]
    fn a_search_becomes_the_filter_that_fits() {
        assert_eq!(query("payments", "q=4242"), "last4=4242&limit=25");
        assert_eq!(query("payments", "q=order+7&status=settled"), "status=settled&externalId=order+7&limit=25");
        assert_eq!(query("customers", "q=ada%40shop.example"), "email=ada%40shop.example&limit=25");
        assert_eq!(query("customers", "q=4242"), "externalId=4242&limit=25");
        assert_eq!(query("disputes", "q=x"), "limit=25");
    }

    #[test]
    fn only_known_filters_reach_v1() {
        assert_eq!(query("refunds", "paymentId=pay_1&limit=9&x=y&status="), "paymentId=pay_1&limit=25");
        assert_eq!(query("refunds", "startingAfter=ref_1"), "limit=25&startingAfter=ref_1");
    }
}

//! The lists of objects, with the filters and pages of /v1, and as CSV.

use axum::http::HeaderValue;
use axum::http::header::CONTENT_DISPOSITION;
use axum::response::{IntoResponse as _, Redirect, Response};
use domain::accounts::Mode;
use domain::webhooks::endpoints;
use foundation::id::RequestId;
use futures_util::future::try_join_all;
use maud::{Markup, html};
use serde_json::{Value, json};

use crate::actions::Action;
use crate::address::of_object;
use crate::app::App;
use crate::catalog::Cell::{self, Amount, Day, Inner, Link, Number, Status, Text, Time, Words, Yes};
use crate::catalog::List;
use crate::failure::Failure;
use crate::fields::{amount, status, time};
use crate::filters::{self, ListQuery};
use crate::layout::page;
use crate::notice::Notice;
use crate::session::AccountSession;
use crate::texts::{self, button, listed, marked, minute, text, words_of};

/// Objects on a page.
const PAGE: &str = "25";
/// Objects of a search whose own objects are searched for.
const PARENTS: usize = 5;

/// The page of a list, or its CSV file.
pub(crate) async fn show(
    app: &App,
    session: &AccountSession,
    list: &'static List,
    query: &str,
    is_csv: bool,
) -> Result<Response, Failure> {
    let list_query = ListQuery::parse(list, query);
    if is_csv {
        return csv(app, session, list, &list_query).await;
    }
    if let Some(address) = address(session.mode, list_query.search()) {
        return Ok(Redirect::to(&address).into_response());
    }
    let found = match found(app, session, list, &list_query).await? {
        Ok(found) => found,
        Err(address) => return Ok(Redirect::to(&address).into_response()),
    };
    let notice = Notice::of_query(app, session, query, None).await?;
    let failing = match list.resource {
        "webhook_endpoints" => failing(app, session).await?,
        _ => html! {},
    };
    let content = html! { (notice.markup()) (content(session, list, &list_query, &found)) (failing) };
    Ok(page(session, list.path, text(list.title), &content).into_response())
}

/// The endpoints whose deliveries fail. It is not in /v1, so it is read here.
async fn failing(app: &App, session: &AccountSession) -> Result<Markup, Failure> {
    let failing = endpoints::failing(app.api.pool(), session.caller.account_id).await.map_err(Failure::internal)?;
    Ok(html! {
        @if !failing.is_empty() {
            section {
                h2 { (text("Failing endpoints")) }
                ul {
                    @for endpoint in &failing {
                        li {
                            a href=[of_object(session.mode, &endpoint.id.to_string())] { (endpoint.url) }
                            @if let Some(since) = endpoint.since {
                                " " (marked("since {time}", &[("time", time(&since.to_string().into()))]))
                            }
                        }
                    }
                }
            }
        }
    })
}

/// The page of the object or of the request with this id.
fn address(mode: Mode, id: &str) -> Option<String> {
    let of_request = |id: RequestId| format!("/{}/requests/{id}", mode.name());
    of_object(mode, id).or_else(|| id.parse().ok().map(of_request))
}

/// A page of /v1, and the search that found it.
type Read = (Option<&'static str>, Value);

/// What is shown of a list.
#[derive(Default)]
struct Found {
    /// A page of /v1.
    rows: Value,
    /// Those that were searched for, to choose from: rows of the list belong to them.
    parents: Vec<Value>,
    /// What is wrong with the filters.
    problem: Option<String>,
}

/// What the query finds, or the address of the rows that belong to the only object that it finds elsewhere.
async fn found(
    app: &App,
    session: &AccountSession,
    list: &'static List,
    list_query: &ListQuery,
) -> Result<Result<Found, String>, Failure> {
    let mut found = Found::default();
    match read(app, session, list, list_query).await? {
        Ok((_, rows)) => found.rows = rows,
        Err(problem) => found.problem = Some(problem),
    }
    let search = list_query.search();
    if !data(&found.rows).is_empty() || found.problem.is_some() || search.is_empty() {
        return Ok(Ok(found));
    }
    if let Some(field) = list.search.compared {
        found.rows = compared(app, session, list, list_query, field).await?;
    }
    let parent = list.parent().filter(|(_, filter)| list_query.filter(filter).is_empty());
    if data(&found.rows).is_empty()
        && let Some((parent, filter)) = parent
    {
        found.parents = parents(app, session, parent, search).await?;
        if let [only] = &found.parents[..] {
            let query = list_query.of_parent(filter, only["id"].as_str().unwrap_or_default());
            return Ok(Err(format!("/{}/{}?{query}", session.mode.name(), list.path)));
        }
    }
    Ok(Ok(found))
}

/// The rows of a page of /v1.
fn data(page: &Value) -> &[Value] {
    page["data"].as_array().map_or(&[] as &[Value], Vec::as_slice)
}

/// Those of the latest hundred whose field has the text that is searched for.
async fn compared(
    app: &App,
    session: &AccountSession,
    list: &List,
    list_query: &ListQuery,
    field: &str,
) -> Result<Value, Failure> {
    let query = list_query.query(None, Some("100")).map_err(Failure::Invalid)?;
    let latest = app.get(&session.caller, &format!("/v1/{}?{query}", list.resource)).await?;
    let search = list_query.search().to_lowercase();
    let matches = |row: &&Value| row[field].as_str().is_some_and(|own| own.to_lowercase().contains(&search));
    Ok(json!({"data": data(&latest).iter().filter(matches).collect::<Vec<_>>()}))
}

/// The first page of the objects of a list that match a search, or that belong to an object that does.
async fn parents(
    app: &App,
    session: &AccountSession,
    list: &'static List,
    search: &str,
) -> Result<Vec<Value>, Failure> {
    let own = matching(app, session, list, search).await?;
    let Some((parent, filter)) = list.parent().filter(|_| own.is_empty()) else { return Ok(own) };
    let found = matching(app, session, parent, search).await?;
    let of_each = found.into_iter().take(PARENTS).map(async |found| {
        let id = found["id"].as_str().unwrap_or_default();
        let path = format!("/v1/{}?{filter}={id}&limit={PAGE}", list.resource);
        Ok::<_, Failure>(data(&app.get(&session.caller, &path).await?).to_vec())
    });
    Ok(try_join_all(of_each).await?.concat())
}

/// The first page of the objects of a list that match a search.
async fn matching(app: &App, session: &AccountSession, list: &List, search: &str) -> Result<Vec<Value>, Failure> {
    let (_, found) = read(app, session, list, &ListQuery::of_search(search)).await?.map_err(Failure::Invalid)?;
    Ok(data(&found).to_vec())
}

/// A page, by the first search that finds something, and which one it is; or what is wrong with the filters.
async fn read(
    app: &App,
    session: &AccountSession,
    list: &List,
    list_query: &ListQuery,
) -> Result<Result<Read, String>, Failure> {
    let mut last = (None, Value::Null);
    for search in list_query.searches(list) {
        // There is no filter for what is searched for.
        if search.is_none() && !list_query.search().is_empty() {
            break;
        }
        let query = match list_query.query(search, Some(PAGE)) {
            Ok(query) => query,
            Err(problem) => return Ok(Err(problem)),
        };
        let rows = match app.get(&session.caller, &format!("/v1/{}?{query}", list.resource)).await {
            // What was searched for cannot exist.
            Err(Failure::Invalid(_)) => Value::Null,
            other => other?,
        };
        last = (search, rows);
        if !data(&last.1).is_empty() {
            break;
        }
    }
    Ok(Ok(last))
}

/// The first page of the customers with this name, e-mail address or reference.
async fn customers(app: &App, session: &AccountSession, search: &str) -> Result<Value, Failure> {
    let list = List::find("customers").ok_or(Failure::NotFound)?;
    let (_, found) = read(app, session, list, &ListQuery::of_search(search)).await?.map_err(Failure::Invalid)?;
    Ok(found)
}

/// The customer with this id, or the only one with this name, e-mail address or reference.
pub(crate) async fn customer(
    app: &App,
    session: &AccountSession,
    entered: &str,
) -> Result<Result<String, String>, Failure> {
    if entered.is_empty() || of_object(session.mode, entered).is_some() {
        return Ok(Ok(entered.to_owned()));
    }
    let several = || Err(text("several customers match; enter the ID").to_owned());
    let mut found = customers(app, session, entered).await?;
    // Another page may have another one.
    if found["hasMore"] == true {
        return Ok(several());
    }
    if let Some(found) = found["data"].as_array_mut() {
        let is_it = |customer: &Value, field: &str| {
            customer[field].as_str().is_some_and(|own| own.to_lowercase() == entered.to_lowercase())
        };
        found.retain(|customer| ["name", "email", "externalId"].iter().any(|field| is_it(customer, field)));
    }
    Ok(match found["data"].as_array().map(Vec::as_slice) {
        Some([only]) => Ok(only["id"].as_str().unwrap_or_default().to_owned()),
        Some([_, ..]) => several(),
        Some([]) | None => Err(text("no customer has this ID, name or e-mail address").to_owned()),
    })
}

async fn csv(app: &App, session: &AccountSession, list: &List, list_query: &ListQuery) -> Result<Response, Failure> {
    let search = match list_query.searches(list)[..] {
        [None] if !list_query.search().is_empty() => return Err(Failure::Invalid(text("Nothing found.").to_owned())),
        [only] if list.search.compared.is_none() => only,
        // Only a page shows which of several searches finds something.
        _ => {
            let (search, rows) = read(app, session, list, list_query).await?.map_err(Failure::Invalid)?;
            if search.is_some() && list.search.compared.is_some() && data(&rows).is_empty() {
                let refused = text("A file has no objects that are found by a part of their name.");
                return Err(Failure::Invalid(refused.to_owned()));
            }
            search
        }
    };
    let path = format!("/v1/{}?{}", list.resource, list_query.query(search, None).map_err(Failure::Invalid)?);
    let mut response = app.respond(&session.caller, &path, "text/csv; amounts=major").await?;
    let name = format!("attachment; filename=\"{}.csv\"", list.path);
    let name = HeaderValue::try_from(name).map_err(Failure::internal)?;
    response.headers_mut().insert(CONTENT_DISPOSITION, name);
    Ok(response)
}

fn content(session: &AccountSession, list: &List, list_query: &ListQuery, found: &Found) -> Markup {
    let Found { rows: found, parents, problem } = found;
    let rows = data(found);
    let address = format!("/{}/{}", session.mode.name(), list.path);
    html! {
        h1 { (text(list.title)) }
        @if let Some(action) = Action::find(list.path, "new").filter(|action| action.is_offered(session)) {
            p { a.button href={ (address) "/new" } { (button(action.label)) } }
        }
        (filters::form(session, list, list_query, &address))
        @if let Some(problem) = problem { p.problem role="alert" { (problem) } }
        @if let Some((parent, filter)) = list.parent().filter(|_| !parents.is_empty()) {
            section {
                h2 { (text(parent.title)) }
                ul {
                    @for found in parents {
                        @let query = list_query.of_parent(filter, found["id"].as_str().unwrap_or_default());
                        li { a href={ (address) "?" (query) } { (described(found)) } }
                    }
                }
            }
        }
        @if rows.is_empty() { @if parents.is_empty() { p.empty { (text("Nothing found.")) } } } @else { (table(session, list.title, list.columns, rows)) }
        p.pages {
            @if list_query.after.is_some() { a href={ (address) "?" (list_query.page(None)) } { (text("First page")) } }
            @if let Some(next) = found["nextCursor"].as_str() {
                a href={ (address) "?" (list_query.page(Some(next))) } { (text("Next page")) }
            }
        }
    }
}

/// A customer by name and e-mail address, a payment by its amount and its time.
fn described(object: &Value) -> String {
    let field = |name: &str| object[name].as_str().unwrap_or_default().to_owned();
    match object["object"].as_str() {
        Some("payment") => listed(&[amount(object, "amount"), minute(&field("createdAt")).unwrap_or_default()]),
        _ => listed(&[field("name"), field("email")]),
    }
}

/// Rows that lead to the page of their object.
pub(crate) fn table(
    session: &AccountSession,
    title: &'static str,
    columns: &[(&'static str, Cell)],
    rows: &[Value],
) -> Markup {
    html! {
        div.scroll role="region" aria-label=(text(title)) tabindex="0" {
            table {
                thead { tr {
                    @for (heading, _) in columns { th scope="col" { (text(heading)) } }
                    th scope="col" { (text("ID")) }
                } }
                tbody {
                    @for row in rows {
                        @let id = row["id"].as_str().unwrap_or_default();
                        @let address = of_object(session.mode, id);
                        tr {
                            @for (column, (_, cell)) in columns.iter().enumerate() {
                                // On a phone only the first columns are visible.
                                td { @if column == 0 { a href=[&address] { (shown(session.mode, cell, row)) } } @else { (shown(session.mode, cell, row)) } }
                            }
                            td { a href=[&address] { (id) } }
                        }
                    }
                }
            }
        }
    }
}

fn shown(mode: Mode, cell: &Cell, row: &Value) -> Markup {
    match cell {
        Amount(field) => html! { (amount(row, field)) },
        Status => status(row["object"].as_str().unwrap_or_default(), &row["status"]),
        Time(field) => time(&row[*field]),
        Text(field) => html! { (row[*field].as_str().unwrap_or_default()) },
        Link(field) => {
            let id = row[*field].as_str().unwrap_or_default();
            html! { a href=[of_object(mode, id)] { (id) } }
        }
        Yes(field) => html! { @if row[*field] == true { (text("Yes")) } },
        Number(field) => html! { (row[*field].as_i64().map(|number| number.to_string()).unwrap_or_default()) },
        Words(field) => html! { (words_of(field, row[*field].as_str().unwrap_or_default())) },
        Day(field) => html! { (texts::day(row[*field].as_str().unwrap_or_default())) },
        Inner(object, field) => html! { (row[*object][*field].as_str().unwrap_or_default()) },
    }
}

//! The pages that are not lists of /v1.

mod activity;
mod clock;
mod developers;
mod keys;
mod requests;
mod security;
mod settings;
mod team;

use axum::extract::{Path, RawQuery, State};
use axum::response::{Html, IntoResponse as _, Response};
use maud::{Markup, html};
use serde_json::Value;
use url::form_urlencoded;

use crate::actions::Action;
use crate::app::App;
use crate::catalog::List;
use crate::failure::Failure;
use crate::form::form;
use crate::lists;
use crate::notice::Notice;
use crate::object;
use crate::session::{AccountSession, User};
use crate::texts::text;

pub(crate) use security::passkey_options;
pub(crate) use settings::logo;

/// A list, its CSV file, or another page.
pub(crate) async fn page(
    State(app): State<App>,
    user: User,
    Path((mode, path)): Path<(String, String)>,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let session = AccountSession::begin(&app, user, &mode).await?;
    let query = query.unwrap_or_default();
    let (name, is_csv) = path.strip_suffix(".csv").map_or((path.as_str(), false), |name| (name, true));
    match path.as_str() {
        "activity" => return Ok(activity::show(&app, &session, &query).await?.into_response()),
        "requests" => return Ok(requests::show(&app, &session, &query).await?.into_response()),
        _ => {}
    }
    if let Some(list) = List::find(name) {
        return lists::show(&app, &session, list, &query, is_csv).await;
    }
    let notice = Notice::of_query(&app, &session, &query, None).await?;
    Ok(show(&app, &session, &path, &notice).await?.into_response())
}

/// The page of a request, or of an object of a list.
pub(crate) async fn object(
    State(app): State<App>,
    user: User,
    Path((mode, path, id)): Path<(String, String, String)>,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let session = AccountSession::begin(&app, user, &mode).await?;
    if path == "requests" {
        return Ok(requests::show_one(&app, &session, &id).await?.into_response());
    }
    let list = List::find(&path).ok_or(Failure::NotFound)?;
    let notice = Notice::of_query(&app, &session, query.as_deref().unwrap_or_default(), Some(&id)).await?;
    object::show(&app, &session, list, &id, &notice).await
}

/// The page with this path, with a notice at its beginning.
pub(crate) async fn show(
    app: &App,
    session: &AccountSession,
    path: &str,
    notice: &Notice,
) -> Result<Html<String>, Failure> {
    match path {
        "clock" => clock::show(app, session, notice).await,
        "developers" => developers::show(app, session).await,
        "keys" => keys::show(app, session, notice).await,
        "security" => security::show(app, session, notice).await,
        "settings" => settings::show(app, session, notice).await,
        "team" => team::show(app, session, notice).await,
        _ => Err(Failure::NotFound),
    }
}

/// The value of a parameter of a query, without characters that the database cannot store; empty without one.
fn parameter(query: &str, name: &str) -> String {
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    pairs.find(|(own, _)| own == name).map(|(_, value)| value.trim().replace('\0', "")).unwrap_or_default()
}

/// The form of an action of this page, if the role includes it and it makes sense for the object.
fn action_form(
    session: &AccountSession,
    (page, name): (&str, &str),
    id: Option<&str>,
    object: &Value,
    notice: &Notice,
) -> Markup {
    let action = Action::find(page, name).filter(|action| action.is_offered(session) && (action.applies)(object));
    let Some(action) = action else { return html! {} };
    let object_part = id.map(|id| format!("/{id}")).unwrap_or_default();
    let address = format!("/{}/{page}{object_part}/{name}", session.mode.name());
    form(action, &address, &notice.entered(action, id, object), object)
}

/// A table that scrolls on a phone.
fn table(title: &'static str, headings: &[&'static str], rows: &Markup) -> Markup {
    html! {
        div.scroll role="region" aria-label=(text(title)) tabindex="0" {
            table {
                thead { tr { @for heading in headings { th scope="col" { (text(heading)) } } } }
                tbody { (rows) }
            }
        }
    }
}

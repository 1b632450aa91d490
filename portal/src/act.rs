//! Does what a form asks for, once, however often it is sent.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use domain::users::{self, Begun, Outcome};
use foundation::crypto::sha256;
use maud::{Markup, html};
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep};

use crate::actions::{Action, Request};
use crate::address::is_id;
use crate::app::App;
use crate::catalog::List;
use crate::failure::Failure;
use crate::form::{Entered, confirmed_form, form};
use crate::layout::page;
use crate::object;
use crate::session::{User, Work};
use crate::texts::text;

/// How long the second request with a nonce waits for the first one. A request of /v1 takes about 25 s at most.
const WAIT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// The page with the form for a new object.
pub(crate) async fn creating(
    State(app): State<App>,
    User(user): User,
    Path((mode, path)): Path<(String, String)>,
) -> Result<Html<String>, Failure> {
    let work = Work::begin(&app, user, &mode).await?;
    let (list, action) = List::find(&path).zip(Action::find(&path, "new")).ok_or(Failure::NotFound)?;
    work.caller.require(action.permission).map_err(|_| Failure::Forbidden)?;
    Ok(creation(&work, list, action, &Entered::default(), None))
}

pub(crate) async fn create(
    State(app): State<App>,
    User(user): User,
    Path((mode, path)): Path<(String, String)>,
    body: Bytes,
) -> Result<Response, Failure> {
    let work = Work::begin(&app, user, &mode).await?;
    let (list, action) = List::find(&path).zip(Action::find(&path, "new")).ok_or(Failure::NotFound)?;
    act(app, work, list, action, None, &body).await
}

pub(crate) async fn change(
    State(app): State<App>,
    User(user): User,
    Path((mode, path, id, name)): Path<(String, String, String, String)>,
    body: Bytes,
) -> Result<Response, Failure> {
    let work = Work::begin(&app, user, &mode).await?;
    let (list, action) = List::find(&path).zip(Action::find(&path, &name)).ok_or(Failure::NotFound)?;
    if action.request == Request::Create || !is_id(&id) {
        return Err(Failure::NotFound);
    }
    act(app, work, list, action, Some(id), &body).await
}

async fn act(
    app: App,
    work: Work,
    list: &'static List,
    action: &'static Action,
    id: Option<String>,
    form: &[u8],
) -> Result<Response, Failure> {
    work.caller.require(action.permission).map_err(|_| Failure::Forbidden)?;
    let entered = Entered::parse(form);
    let nonce = entered.nonce().ok_or_else(|| Failure::Invalid(text("The form is incomplete.").to_owned()))?.to_owned();
    if action.request == Request::Delete && entered.get("confirm").is_empty() {
        return Ok(confirmation(&work, list, action, &id.unwrap_or_default()).into_response());
    }
    let currency = match &id {
        Some(id) if action.has_amount() => {
            app.get(&work.caller, &format!("/v1/{}/{id}", list.resource)).await?["currency"].as_str().map(str::to_owned)
        }
        Some(_) | None => None,
    };
    let body = match entered.body(action, currency.as_deref()) {
        Ok(body) => body,
        Err(problem) => return refused(&app, &work, list, action, id.as_deref(), &entered, &problem).await,
    };
    let content = format!("{}/{} {}", id.as_deref().unwrap_or_default(), action.name, Value::Object(body.clone()));
    let record = users::Action {
        nonce: nonce.clone(),
        user: work.user.id,
        account: work.caller.account_id,
        name: action.permission.name(),
        content: sha256(content.as_bytes()),
        object: id.clone(),
    };
    // Browsers close the connection of a form that is sent again; what has begun goes on.
    #[expect(clippy::disallowed_methods, reason = "what it does is a row before it begins, and /v1 stores the rest")]
    let doing = tokio::spawn({
        let (app, work, id) = (app.clone(), work.clone(), id.clone());
        async move { once(&app, &work, list, action, id, record, body).await }
    });
    let outcome = doing.await.map_err(Failure::internal)??;
    let address = format!("/{}/{}", work.mode.name(), list.path);
    let problem = outcome.message.as_deref().unwrap_or_default();
    match outcome.object.as_deref() {
        _ if action.request == Request::Delete && outcome.status < 300 => Ok(Redirect::to(&address).into_response()),
        Some(object) if outcome.status < 300 => {
            Ok(Redirect::to(&format!("{address}/{object}?did={nonce}")).into_response())
        }
        _ if action.request != Request::Create && outcome.status == 404 => Err(Failure::NotFound),
        _ => refused(&app, &work, list, action, id.as_deref(), &entered, problem).await,
    }
}

/// Does it, unless another request with this nonce has done so or is doing so.
async fn once(
    app: &App,
    work: &Work,
    list: &List,
    action: &Action,
    id: Option<String>,
    record: users::Action,
    body: Map<String, Value>,
) -> Result<Outcome, Failure> {
    let db = app.api.pool();
    let (refuse, object) = (|message| Outcome { status: 409, object: id.clone(), message: Some(message) }, id.clone());
    let mut is_repeated = false;
    match record.begin(db).await.map_err(Failure::internal)? {
        Begun::First => {}
        Begun::Other => return Ok(refuse(text("This form was sent before. Please use the new one.").to_owned())),
        Begun::Again(mut known) => {
            let end = Instant::now() + WAIT;
            while known.is_none() && Instant::now() < end {
                sleep(POLL_INTERVAL).await;
                known = users::find_action(db, record.user, &record.nonce).await.map_err(Failure::internal)?;
            }
            if let Some(outcome) = known {
                return Ok(outcome);
            }
            // The first request was interrupted. What is not idempotent is not sent again.
            if action.request == Request::Post {
                let message =
                    "This form was sent before, and it is not known what came of it. Please look at the current state.";
                return Ok(refuse(text(message).to_owned()));
            }
            is_repeated = true;
        }
    }
    let (status, response) = request(app, work, list, action, id.as_deref(), &record.nonce, body).await?;
    let deleted_before = is_repeated && action.request == Request::Delete && status == StatusCode::NOT_FOUND;
    match status {
        // Nothing was done.
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            record.abandon(db).await.map_err(Failure::internal)?;
            return Err(Failure::TooMany);
        }
        // It may have been done.
        _ if status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED => return Err(Failure::Internal),
        _ => {}
    }
    // Of a payment and of a refund.
    let is_unknown = response["pendingOperation"].is_string() || status == StatusCode::ACCEPTED;
    let status = match status {
        _ if deleted_before => StatusCode::OK,
        _ if is_unknown && status.is_success() => StatusCode::ACCEPTED,
        status => status,
    };
    let created = (action.request == Request::Create).then(|| response["id"].as_str()).flatten().map(str::to_owned);
    let message = response["error"]["message"].as_str().filter(|_| !status.is_success()).map(str::to_owned);
    let status = i16::try_from(status.as_u16()).unwrap_or(i16::MAX);
    record.finish(db, Outcome { status, object: created.or(object), message }).await.map_err(Failure::internal)
}

/// The response of /v1. It has one effect for a nonce, except for [`Request::Post`].
async fn request(
    app: &App,
    work: &Work,
    list: &List,
    action: &Action,
    id: Option<&str>,
    nonce: &str,
    mut body: Map<String, Value>,
) -> Result<(StatusCode, Value), Failure> {
    let own_id = format!("portal-{nonce}");
    if action.request == Request::PostOnce {
        body.insert("externalId".to_owned(), own_id.as_str().into());
    }
    let (resource, id) = (list.resource, id.unwrap_or_default());
    let (method, path) = match action.request {
        Request::Create => ("POST", format!("/v1/{resource}")),
        Request::Post | Request::PostOnce => ("POST", format!("/v1/{resource}/{id}/{}", action.name)),
        Request::Delete => ("DELETE", format!("/v1/{resource}/{id}")),
    };
    let key = (action.request == Request::Create).then_some(own_id);
    app.send(&work.caller, method, &path, key, body).await
}

/// The page of the form again, with the reason.
async fn refused(
    app: &App,
    work: &Work,
    list: &List,
    action: &Action,
    id: Option<&str>,
    entered: &Entered,
    problem: &str,
) -> Result<Response, Failure> {
    let page = match id {
        Some(id) => {
            let notice = html! { p.problem role="alert" { (text(action.label)) ": " (problem) } };
            object::show(app, work, list, id, &notice).await?
        }
        None => creation(work, list, action, entered, Some(problem)),
    };
    Ok((StatusCode::UNPROCESSABLE_ENTITY, page).into_response())
}

/// Asks again before something that cannot be undone.
fn confirmation(work: &Work, list: &List, action: &Action, id: &str) -> Html<String> {
    let page_of_object = format!("/{}/{}/{id}", work.mode.name(), list.path);
    let content = html! {
        h1 { (text(action.label)) " " (id) }
        p { (text("This cannot be undone.")) }
        (confirmed_form(action, &format!("{page_of_object}/{}", action.name)))
        p { a href=(page_of_object) { (text("Back")) } }
    };
    page(work, list.path, text(action.label), &content)
}

fn creation(work: &Work, list: &List, action: &Action, entered: &Entered, problem: Option<&str>) -> Html<String> {
    let address = format!("/{}/{}/new", work.mode.name(), list.path);
    let content: Markup = html! {
        h1 { (text(action.label)) }
        @if let Some(problem) = problem { p.problem role="alert" { (problem) } }
        (form(action, &address, entered))
    };
    page(work, list.path, text(action.label), &content)
}

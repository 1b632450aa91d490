//! Does what a form requests, once, however often it is sent.

use std::time::Duration;

use api::ExpectedVersion;
use axum::body::Bytes;
use axum::extract::{self, FromRequest as _, Path, RawQuery, State};
use axum::http::StatusCode;
use axum::http::header::SET_COOKIE;
use axum::response::{AppendHeaders, Html, IntoResponse as _, Redirect, Response};
use domain::accounts::find_key;
use domain::users::{self, Begun, Outcome};
use foundation::crypto::{Secret, sha256};
use foundation::error::Error;
use foundation::id::KeyId;
use maud::{Markup, html};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tracing::{Instrument as _, Span};

use crate::actions::{Action, Kind, PortalChange, Request, V1Request};
use crate::address::is_id;
use crate::app::App;
use crate::catalog::List;
use crate::failure::Failure;
use crate::fields::amount;
use crate::form::{Entered, confirmed_form, form, repeated_form};
use crate::layout::page;
use crate::lists;
use crate::metadata::remove_missing;
use crate::notice::Notice;
use crate::object;
use crate::pages;
use crate::portal_changes::{self, Done};
use crate::posted;
use crate::session::{AccountSession, User, set_session};
use crate::texts::{self, button, filled, in_language, labelled, language, listed, message, text};

/// How long the second request with a nonce waits for the first one. A request of /v1 takes about 25 s at most.
const WAIT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(250);
const CHANGED: &str = "it was changed meanwhile; this form has the present values, please enter your change again";

/// What is to be done, and where.
#[derive(Clone)]
struct Task {
    session: AccountSession,
    action: &'static Action,
    /// The object in the address.
    id: Option<String>,
    /// The version of the object that the form has shown, if it must still have it.
    version: ExpectedVersion,
}

impl Task {
    /// # Errors
    /// [`Failure::NotFound`] for an unknown action, [`Failure::Forbidden`] if the role does not include it.
    async fn new(
        app: &App,
        user: User,
        mode: &str,
        (page, name): (&str, &str),
        id: Option<String>,
    ) -> Result<Self, Failure> {
        let session = AccountSession::begin(app, user, mode).await?;
        let action = Action::find(page, name).filter(|action| action.has_object == id.is_some());
        let action = action.filter(|_| id.as_deref().is_none_or(is_id)).ok_or(Failure::NotFound)?;
        Self { session, action, id, version: ExpectedVersion::default() }.allowed()
    }

    fn allowed(self) -> Result<Self, Failure> {
        if self.action.is_allowed(&self.session) { Ok(self) } else { Err(Failure::Forbidden) }
    }

    /// The same, of the user as of now.
    async fn again(&self, app: &App) -> Result<Self, Failure> {
        Self { session: self.session.again(app).await?, ..self.clone() }.allowed()
    }

    /// The resource of /v1.
    fn resource(&self) -> &'static str {
        List::find(self.action.page).map_or("test_clock", |list| list.resource)
    }

    fn address_of_page(&self) -> String {
        format!("/{}/{}", self.session.mode.name(), self.action.page)
    }

    /// The object as it is now; null without one.
    async fn object(&self, app: &App) -> Result<Value, Failure> {
        match &self.id {
            Some(id) => app.get(&self.session.caller, &format!("/v1/{}/{id}", self.resource())).await,
            None => Ok(Value::Null),
        }
    }

    /// To which the form is sent.
    fn address(&self) -> String {
        let object = self.id.as_ref().map(|id| format!("/{id}")).unwrap_or_default();
        format!("{}{object}/{}", self.address_of_page(), self.action.name)
    }

    /// The page with the form of this task.
    async fn page(&self, app: &App, notice: Notice) -> Result<Response, Failure> {
        let Self { session, action, id, .. } = self;
        Ok(match (List::find(action.page), id) {
            (Some(list), Some(id)) => object::show(app, session, list, id, &notice).await?,
            (Some(list), None) => creation(app, session, list, action, &notice).await?.into_response(),
            (None, _) => pages::show(app, session, action.page, &notice).await?.into_response(),
        })
    }
}

/// The page with the form for a new object. The query has the objects that it belongs to.
pub(crate) async fn creating(
    State(app): State<App>,
    user: User,
    Path((mode, page)): Path<(String, String)>,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let task = Task::new(&app, user, &mode, (&page, "new"), None).await?;
    let known = Entered::of_link(task.action, task.session.mode, &query.unwrap_or_default());
    task.page(&app, Notice::known(task.action, known)).await
}

pub(crate) async fn create(
    State(app): State<App>,
    user: User,
    Path((mode, page)): Path<(String, String)>,
    request: extract::Request,
) -> Result<Response, Failure> {
    let task = Task::new(&app, user, &mode, (&page, "new"), None).await?;
    act(app, task, request).await
}

/// An action on no particular object.
pub(crate) async fn on_page(
    State(app): State<App>,
    user: User,
    Path((mode, page, name)): Path<(String, String, String)>,
    request: extract::Request,
) -> Result<Response, Failure> {
    let task = Task::new(&app, user, &mode, (&page, &name), None).await?;
    act(app, task, request).await
}

pub(crate) async fn on_object(
    State(app): State<App>,
    user: User,
    Path((mode, page, id, name)): Path<(String, String, String, String)>,
    request: extract::Request,
) -> Result<Response, Failure> {
    let task = Task::new(&app, user, &mode, (&page, &name), Some(id)).await?;
    act(app, task, request).await
}

/// The page on which an action is confirmed.
pub(crate) async fn confirming(
    State(app): State<App>,
    user: User,
    Path((mode, page, id, name)): Path<(String, String, String, String)>,
) -> Result<Html<String>, Failure> {
    let task = Task::new(&app, user, &mode, (&page, &name), Some(id)).await?;
    let consequence = task.action.consequence.ok_or(Failure::NotFound)?;
    confirmation(&app, &task, consequence).await
}

/// Reads the form of a user who may do what it asks for, and does it if the user still may: it can take long to arrive.
async fn act(app: App, task: Task, request: extract::Request) -> Result<Response, Failure> {
    let action = task.action;
    let (mut entered, file) = match action.has_file() {
        true => posted::with_file(request, task.session.caller.account_id).await?,
        false => (Entered::from_request(request, &app).await?, None),
    };
    let mut task = task.again(&app).await?;
    let nonce = entered.nonce().ok_or_else(|| Failure::Invalid(text("The form is incomplete.").to_owned()))?.to_owned();
    if action.consequence.is_some() && entered.get("confirm").is_empty() {
        return Ok(Redirect::to(&task.address()).into_response());
    }
    if let Some(field) = action.fields.iter().find(|field| matches!(field.kind, Kind::Suggested("customers"))) {
        match lists::customer(&app, &task.session, entered.get(field.name)).await? {
            Ok(id) => entered = entered.with(field.name, id),
            Err(problem) => {
                // What was entered may have meant one customer when the form was first sent.
                let problem = labelled(text(field.label), problem);
                return refused_now(&app, &task, (nonce.as_str(), entered), &problem, Instant::now()).await;
            }
        }
    }
    let object = match action.has_amount() || action.has_version() {
        true => task.object(&app).await?,
        false => Value::Null,
    };
    if action.has_version() {
        task.version = ExpectedVersion(entered.get("version").parse().ok());
        if task.version.0 != object["version"].as_i64() {
            // This form may have changed it when it was first sent. Another one has the present values.
            let (present, end) = (Entered::of(action, &object), Instant::now() + WAIT);
            return refused_now(&app, &task, (nonce.as_str(), present), text(CHANGED), end).await;
        }
    }
    let mut body = match entered.body(action, object["currency"].as_str()) {
        Ok(body) => body,
        Err(problem) => return refused(&app, &task, entered, &problem).await,
    };
    if action.has_version() {
        remove_missing(&mut body, &object);
    }
    let too_much = too_much(action, &object, &body);
    // Browsers close the connection of a form that is sent again; what has begun goes on.
    #[expect(clippy::disallowed_methods, reason = "what it does is a row before it begins, and /v1 stores the rest")]
    let doing = tokio::spawn({
        let (app, task, nonce) = (app.clone(), task.clone(), nonce.clone());
        let doing = in_language(language(), async move { once(&app, &task, nonce, (body, file)).await });
        doing.instrument(Span::current())
    });
    match doing.await.unwrap_or_else(|error| Err(Failure::unknown(error))) {
        Err(Failure::Unknown) => unknown(&app, &task, Some(&entered)).await,
        done => follow(&app, &task, (nonce.as_str(), entered), done?, too_much).await,
    }
}

/// Rejects an invalid form. If its nonce was already used, waits until `end` for the earlier result.
async fn refused_now(
    app: &App,
    task: &Task,
    (nonce, entered): (&str, Entered),
    problem: &str,
    end: Instant,
) -> Result<Response, Failure> {
    let (db, user) = (app.api.pool(), task.session.user.id);
    loop {
        match users::find_action(db, user, nonce).await.map_err(Failure::internal)? {
            Begun::Again(Some(outcome)) => return follow(app, task, (nonce, entered), outcome.into(), None).await,
            Begun::Again(None) if Instant::now() < end => sleep(POLL_INTERVAL).await,
            Begun::Again(None) => return unknown(app, task, None).await,
            Begun::First(()) | Begun::Other => return refused(app, task, entered, problem).await,
        }
    }
}

/// The page that follows the result of a form.
async fn follow(
    app: &App,
    task: &Task,
    (nonce, entered): (&str, Entered),
    Done { outcome, cookie }: Done,
    too_much: Option<String>,
) -> Result<Response, Failure> {
    let action = task.action;
    let (mode, has_page) = (task.session.mode.name(), List::find(action.page).is_some());
    let next = match (action.next, outcome.object) {
        _ if action.has_object && outcome.status == 404 => return Err(Failure::NotFound),
        // It was changed after it was compared, before the row was locked.
        _ if action.has_version() && outcome.status == 409 => {
            let present = Entered::of(action, &task.object(app).await?);
            return refused(app, task, present, text(CHANGED)).await;
        }
        _ if outcome.status >= 300 => {
            let problem = too_much.or(outcome.message.as_deref().map(message)).unwrap_or_default();
            return refused(app, task, entered, &problem).await;
        }
        (Some(next), _) => next.to_owned(),
        (None, Some(object)) if has_page => format!("{}/{object}", action.page),
        (None, Some(_) | None) => action.page.to_owned(),
    };
    let cookie = cookie.map(|cookie| AppendHeaders([(SET_COOKIE, set_session(&cookie))]));
    Ok((cookie, Redirect::to(&format!("/{mode}/{next}?did={nonce}"))).into_response())
}

/// Does it, unless another request with this nonce has done so or is doing so.
async fn once(app: &App, task: &Task, nonce: String, (body, file): (Value, Option<Bytes>)) -> Result<Done, Failure> {
    let Task { session, action, id, .. } = task;
    let content = format!(
        "{}/{} {}",
        id.as_deref().unwrap_or_default(),
        action.name,
        portal_changes::hashed(app, action, &nonce, &body)
    );
    let record = users::Action {
        nonce,
        user: session.user.id,
        account: session.caller.account_id,
        name: action.record_name(),
        content: sha256(content.as_bytes()),
        object: id.clone(),
    };
    match action.request {
        Request::V1(request) => once_at_v1(app, task, request, record, body).await.map(Done::from),
        Request::Portal(change) => {
            portal_changes::once(app, session, (action, change), id.as_deref(), (&body, file), record).await
        }
    }
}

async fn once_at_v1(
    app: &App,
    task: &Task,
    request: V1Request,
    record: users::Action,
    body: Value,
) -> Result<Outcome, Failure> {
    let db = app.api.pool();
    let end = Instant::now() + WAIT;
    let is_repeated = loop {
        match record.begin(db).await.map_err(Failure::internal)? {
            Begun::First(()) => break false,
            Begun::Other => {
                let problem = text("This form was sent before. Please use the new one.");
                return Ok(Outcome::refused(task.id.clone(), problem));
            }
            Begun::Again(Some(outcome)) => return Ok(outcome),
            Begun::Again(None) if Instant::now() < end => sleep(POLL_INTERVAL).await,
            // The first request was interrupted. What is not idempotent is not sent again.
            Begun::Again(None) if !request.is_idempotent() => return Err(Failure::Unknown),
            Begun::Again(None) => break true,
        }
    };
    // The first request was awaited for some time.
    let again = if is_repeated { Some(task.again(app).await?) } else { None };
    let task = again.as_ref().unwrap_or(task);
    // A response that cannot be read may be that of something that was done.
    let (status, response) = send(app, task, request, &record.nonce, body).await.map_err(|_| Failure::Unknown)?;
    let deleted_before = is_repeated && request == V1Request::Delete && status == StatusCode::NOT_FOUND;
    match status {
        // Nothing was done now, but perhaps by the first request.
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE if is_repeated => return Err(Failure::Unknown),
        // Nothing was done.
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            record.abandon(db).await.map_err(Failure::internal)?;
            let is_limited = status == StatusCode::TOO_MANY_REQUESTS;
            return Err(if is_limited { Failure::TooMany } else { Failure::Unavailable });
        }
        // It may have been done.
        _ if status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED => return Err(Failure::Unknown),
        _ => {}
    }
    // An operation of a payment, an advance of a test clock, and a refund.
    let is_unknown =
        response["pendingOperation"].is_string() || response["pending"] == true || status == StatusCode::ACCEPTED;
    let status = match status {
        _ if deleted_before => StatusCode::OK,
        _ if is_unknown && status.is_success() => StatusCode::ACCEPTED,
        status => status,
    };
    let created = (request == V1Request::Create).then(|| response["id"].as_str()).flatten().map(str::to_owned);
    let outcome = Outcome {
        status: i16::try_from(status.as_u16()).unwrap_or(i16::MAX),
        object: created.or_else(|| task.id.clone()),
        message: response["error"]["message"].as_str().filter(|_| !status.is_success()).map(str::to_owned),
    };
    let secret = response["secret"].as_str().map(|secret| Secret::new(json!({"secret": secret}).to_string()));
    let mut connection = db.acquire().await.map_err(Failure::unknown)?;
    record.finish(&mut connection, app.api.encryption(), outcome, secret).await.map_err(Failure::unknown)
}

/// The response of /v1. It has one effect for a nonce, except for those that are not sent again.
async fn send(
    app: &App,
    task: &Task,
    request: V1Request,
    nonce: &str,
    mut body: Value,
) -> Result<(StatusCode, Value), Failure> {
    let own_id = format!("portal-{nonce}");
    let (resource, id, name) = (task.resource(), task.id.as_deref().unwrap_or_default(), task.action.name);
    let (method, path) = match request {
        V1Request::Create => ("POST", format!("/v1/{resource}")),
        V1Request::Update => ("POST", format!("/v1/{resource}/{id}")),
        V1Request::Post | V1Request::PostOnce => ("POST", format!("/v1/{resource}/{id}/{name}")),
        V1Request::Delete => ("DELETE", format!("/v1/{resource}/{id}")),
        V1Request::Advance => ("POST", format!("/v1/{resource}/{name}")),
    };
    if request == V1Request::PostOnce {
        body["externalId"] = own_id.as_str().into();
    }
    let key = (request == V1Request::Create).then_some(own_id);
    app.send(&task.session.caller, (method, &path), key, task.version, body).await
}

/// The page of the form again, with the reason.
async fn refused(app: &App, task: &Task, entered: Entered, problem: &str) -> Result<Response, Failure> {
    let notice = Notice::refused(task.action, task.id.clone(), entered, problem);
    let page = task.page(app, notice).await?;
    Ok((StatusCode::UNPROCESSABLE_ENTITY, page).into_response())
}

/// The page of the form, which says that the outcome is not known. What is done once for its nonce can be requested again
/// with what was entered.
async fn unknown(app: &App, task: &Task, entered: Option<&Entered>) -> Result<Response, Failure> {
    let entered = entered.filter(|_| task.action.request.is_idempotent());
    let again = entered.map_or_else(|| html! {}, |entered| repeated_form(&task.address(), entered));
    let page = task.page(app, Notice::unknown(task.action, &again)).await.map_err(|_| Failure::Unknown)?;
    Ok((StatusCode::ACCEPTED, page).into_response())
}

/// In the words of the form, why /v1 refuses this amount; what it does depends on when the form was first sent.
fn too_much(action: &Action, object: &Value, body: &Value) -> Option<String> {
    let most = (action.most)(object)?;
    let field = action.fields.iter().find(|field| field.name == "amount")?;
    let problem = || filled("at most {amount}", &[("amount", &texts::money(most))]);
    (body["amount"].as_i64()? > most.minor).then(|| labelled(text(field.label), problem()))
}

/// Requests a confirmation before something that cannot be undone.
async fn confirmation(app: &App, task: &Task, consequence: &'static str) -> Result<Html<String>, Failure> {
    let Task { session, action, id, .. } = task;
    let (page_address, id) = (task.address_of_page(), id.as_deref().unwrap_or_default());
    let list = List::find(action.page);
    let singular = list.map_or("", |list| text(list.singular));
    let object = match list {
        Some(list) => app.get(&session.caller, &format!("/v1/{}/{id}", list.resource)).await?,
        None if action.request == Request::Portal(PortalChange::RemoveMember) => {
            let members = users::members(app.api.pool(), session.user.merchant_id).await.map_err(Failure::internal)?;
            let member = members.into_iter().find(|member| member.id.to_string() == id).ok_or(Failure::NotFound)?;
            json!({"object": "user", "email": member.email})
        }
        None => named_key(app, session, id).await?,
    };
    let back = if list.is_some() { format!("{page_address}/{id}") } else { page_address.clone() };
    let known = ["name", "email", "number", "last4"].iter().filter_map(|field| object[*field].as_str());
    let known: Vec<_> = Some(amount(&object, "amount"))
        .into_iter()
        .filter(|amount| !amount.is_empty())
        .chain(known.map(str::to_owned))
        .collect();
    let content = html! {
        h1 { (filled("{action}?", &[("action", &button(action.label))])) }
        p { (singular) " " strong { (listed(&known)) } " " code { (id) } }
        @if list.is_none() || (action.applies)(&object) {
            p { (text(consequence)) " " (text("This cannot be undone.")) }
            (confirmed_form(action, &format!("{page_address}/{id}/{}", action.name), &object))
        } @else {
            p.problem role="alert" { (text("This is not possible in the present state.")) }
        }
        p { a href=(back) { (text("Back")) } }
    };
    Ok(page(session, action.page, button(action.label), &content))
}

/// The name of the account's key with this id.
async fn named_key(app: &App, session: &AccountSession, id: &str) -> Result<Value, Failure> {
    let key: KeyId = id.parse().map_err(|_| Failure::NotFound)?;
    match find_key(app.api.pool(), session.caller.account_id, key).await {
        Ok(key) => Ok(json!({"name": key.name})),
        Err(Error::NotFound(_)) => Err(Failure::NotFound),
        Err(error) => Err(Failure::internal(error)),
    }
}

async fn creation(
    app: &App,
    session: &AccountSession,
    list: &List,
    action: &Action,
    notice: &Notice,
) -> Result<Html<String>, Failure> {
    let address = format!("/{}/{}/new", session.mode.name(), list.path);
    let content = html! {
        h1 { (button(action.label)) }
        (notice.markup())
        section.panel { (form(action, &address, &notice.entered(action, None, &Value::Null), &Value::Null)) }
        (suggestions(app, session, action).await?)
    };
    Ok(page(session, list.path, button(action.label), &content))
}

/// The latest customers and plans, for the fields that have one of them.
async fn suggestions(app: &App, session: &AccountSession, action: &Action) -> Result<Markup, Failure> {
    let mut lists = Vec::new();
    for field in action.fields {
        if let Kind::Suggested(id) = field.kind {
            lists.push((id, app.get(&session.caller, &format!("/v1/{id}?limit=100")).await?));
        }
    }
    let label = |object: &Value| match (object["name"].as_str().unwrap_or_default(), object["email"].as_str()) {
        (name, Some(email)) => format!("{name}, {email}"),
        (name, None) => format!("{name}, {}", amount(object, "amount")),
    };
    Ok(html! {
        @for (id, found) in &lists {
            datalist id=(id) {
                @for object in found["data"].as_array().into_iter().flatten() {
                    option value=(object["id"].as_str().unwrap_or_default()) { (label(object)) }
                }
            }
        }
    })
}

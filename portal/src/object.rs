//! The page of an object: its fields, what happened to it, and what belongs to it.

use axum::extract::{Path, RawQuery, State};
use axum::response::Html;
use domain::users::find_action;
use maud::{Markup, html};
use providers::capabilities::State as Capability;
use serde_json::{Map, Value};

use crate::actions::{ACTIONS, Action};
use crate::address::is_id;
use crate::app::App;
use crate::catalog::List;
use crate::failure::Failure;
use crate::fields::{amount, fields, status, time};
use crate::form::{Entered, form};
use crate::layout::page;
use crate::session::{User, Work};
use crate::texts::{text, words};

/// Events on the page.
const EVENTS: &str = "50";

/// Per list, the other lists that have a filter for its objects.
const RELATED: [(&str, &[(&str, &str)]); 6] = [
    ("payments", &[("refunds", "paymentId"), ("disputes", "paymentId")]),
    (
        "customers",
        &[
            ("payments", "customerId"),
            ("invoices", "customerId"),
            ("subscriptions", "customerId"),
            ("recurring-invoices", "customerId"),
        ],
    ),
    ("invoices", &[("payments", "invoiceId")]),
    ("recurring-invoices", &[("invoices", "recurringInvoiceId")]),
    ("subscriptions", &[("invoices", "subscriptionId"), ("payments", "subscriptionId")]),
    ("plans", &[("subscriptions", "planId")]),
];

pub(crate) async fn object(
    State(app): State<App>,
    User(user): User,
    Path((mode, path, id)): Path<(String, String, String)>,
    RawQuery(query): RawQuery,
) -> Result<Html<String>, Failure> {
    let work = Work::begin(&app, user, &mode).await?;
    let list = List::find(&path).ok_or(Failure::NotFound)?;
    let notice = match query.as_deref().and_then(|query| query.strip_prefix("did=")).filter(|nonce| is_id(nonce)) {
        Some(nonce) => find_action(app.api.pool(), work.user.id, nonce).await.map_err(Failure::internal)?,
        None => None,
    };
    let notice = html! {
        @if let Some(outcome) = notice.filter(|outcome| outcome.object.as_deref() == Some(&id)) {
            p.done role="status" {
                @if outcome.status == 202 { (text("Requested. The outcome follows.")) } @else { (text("Done.")) }
            }
        }
    };
    show(&app, &work, list, &id, &notice).await
}

/// The page, with a notice at its beginning.
pub(crate) async fn show(
    app: &App,
    work: &Work,
    list: &List,
    id: &str,
    notice: &Markup,
) -> Result<Html<String>, Failure> {
    if !is_id(id) {
        return Err(Failure::NotFound);
    }
    let found = app.get(&work.caller, &format!("/v1/{}/{id}", list.resource)).await?;
    let events = match list.resource {
        "events" => Value::Null,
        _ => app.get(&work.caller, &format!("/v1/events?objectId={id}&limit={EVENTS}")).await?,
    };
    let title = format!("{} {id}", text(list.singular));
    Ok(page(work, list.path, &title, &content(work, list, &found, &events, notice)))
}

fn content(work: &Work, list: &List, found: &Value, events: &Value, notice: &Markup) -> Markup {
    let (mode, id) = (work.mode.name(), found["id"].as_str().unwrap_or_default());
    let heading = match amount(found, "amount") {
        amount if amount.is_empty() => id.to_owned(),
        amount => amount,
    };
    let related = RELATED.iter().find(|(own, _)| *own == list.path).map_or(&[] as &[_], |(_, related)| *related);
    let events = events["data"].as_array().map_or(&[] as &[Value], Vec::as_slice);
    let is_allowed = |action: &Action| work.caller.grants.state(action.permission) == Capability::Active;
    let actions: Vec<&Action> = ACTIONS.iter().filter(|action| action.list == list.path).collect();
    let address = |action: &Action| format!("/{mode}/{}/{id}/{}", list.path, action.name);
    html! {
        (notice)
        p.kind { (text(list.singular)) }
        h1 { (heading) " " (status(&found["status"])) }
        div.actions {
            @for action in actions.into_iter().filter(|action| (action.applies)(found) && is_allowed(action)) {
                (form(action, &address(action), &Entered::default()))
            }
        }
        (fields(work.mode, found.as_object().unwrap_or(&Map::new()), found))
        @if !related.is_empty() {
            section {
                h2 { (text("Related")) }
                ul.related {
                    @for (path, filter) in related {
                        li {
                            a href={ "/" (mode) "/" (path) "?" (filter) "=" (id) } {
                                (List::find(path).map_or("", |list| text(list.title)))
                            }
                        }
                    }
                }
            }
        }
        @if !events.is_empty() {
            section {
                h2 { (text("Timeline")) }
                ol.timeline {
                    @for event in events {
                        li {
                            (time(&event["createdAt"])) " "
                            a href={ "/" (mode) "/events/" (event["id"].as_str().unwrap_or_default()) } {
                                (words(event["type"].as_str().unwrap_or_default()))
                            }
                        }
                    }
                }
            }
        }
    }
}

//! The page of an object: its fields, what happened to it, and what belongs to it.

use axum::extract::{Path, State};
use axum::response::Html;
use maud::{Markup, html};
use serde_json::{Map, Value};

use crate::address::is_id;
use crate::app::App;
use crate::catalog::List;
use crate::failure::Failure;
use crate::fields::{amount, fields, status, time};
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
) -> Result<Html<String>, Failure> {
    let work = Work::begin(&app, user, &mode).await?;
    let list = List::find(&path).ok_or(Failure::NotFound)?;
    if !is_id(&id) {
        return Err(Failure::NotFound);
    }
    let found = app.get(&work.caller, &format!("/v1/{}/{id}", list.resource)).await?;
    let events = match list.resource {
        "events" => Value::Null,
        _ => app.get(&work.caller, &format!("/v1/events?objectId={id}&limit={EVENTS}")).await?,
    };
    let title = format!("{} {id}", text(list.singular));
    Ok(page(&work, list.path, &title, &content(&work, list, &found, &events)))
}

fn content(work: &Work, list: &List, found: &Value, events: &Value) -> Markup {
    let (mode, id) = (work.mode.name(), found["id"].as_str().unwrap_or_default());
    let heading = match amount(found, "amount") {
        amount if amount.is_empty() => id.to_owned(),
        amount => amount,
    };
    let related = RELATED.iter().find(|(own, _)| *own == list.path).map_or(&[] as &[_], |(_, related)| *related);
    let events = events["data"].as_array().map_or(&[] as &[Value], Vec::as_slice);
    html! {
        p.kind { (text(list.singular)) }
        h1 { (heading) " " (status(&found["status"])) }
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

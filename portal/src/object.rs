//! The page of an object: its fields, what happened to it, and what belongs to it.

use axum::response::Html;
use maud::{Markup, html};
use serde_json::{Map, Value};

use crate::actions::Action;
use crate::address::is_id;
use crate::app::App;
use crate::catalog::List;
use crate::failure::Failure;
use crate::fields::{amount, fields, status, time};
use crate::form::form;
use crate::layout::page;
use crate::notice::{Notice, copy};
use crate::qr::qr;
use crate::session::Work;
use crate::texts::{text, words};

/// Events on the page.
const EVENTS: &str = "50";

/// Per list, the other lists that have a filter for its objects.
const RELATED: [(&str, &[(&str, &str)]); 7] = [
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
    ("webhooks", &[("deliveries", "endpointId")]),
];

/// The page, with a notice at its beginning.
pub(crate) async fn show(
    app: &App,
    work: &Work,
    list: &List,
    id: &str,
    notice: &Notice,
) -> Result<Html<String>, Failure> {
    if !is_id(id) {
        return Err(Failure::NotFound);
    }
    let found = app.get(&work.caller, &format!("/v1/{}/{id}", list.resource)).await?;
    let events = match list.resource {
        "events" | "webhook_endpoints" | "webhook_deliveries" => Value::Null,
        _ => app.get(&work.caller, &format!("/v1/events?objectId={id}&limit={EVENTS}")).await?,
    };
    let title = format!("{} {id}", text(list.singular));
    let link = payers_page(list, &found)?;
    Ok(page(work, list.path, &title, &content(work, list, (&found, &events), notice, &link)))
}

/// The page that payers open, to be sent to them.
fn payers_page(list: &List, found: &Value) -> Result<Markup, Failure> {
    let has_page = matches!(list.path, "payment-links" | "invoices");
    let Some(url) = found["url"].as_str().filter(|_| has_page) else { return Ok(html! {}) };
    let (is_paid, is_open) = (found["status"] == "paid", found["status"] == "open");
    let code = if is_open {
        qr(url)?
    } else {
        html! {}
    };
    Ok(html! {
        section.panel {
            h2 { (text("Page for the payer")) }
            p {
                a href=(url) { @if is_paid { (text("Receipt")) } @else { (text("Payment page")) } }
                " " (copy(url))
            }
            (code)
        }
    })
}

fn content(work: &Work, list: &List, (found, events): (&Value, &Value), notice: &Notice, link: &Markup) -> Markup {
    let (mode, id) = (work.mode.name(), found["id"].as_str().unwrap_or_default());
    let heading = match amount(found, "amount") {
        amount if amount.is_empty() => id.to_owned(),
        amount => amount,
    };
    let related = RELATED.iter().find(|(own, _)| *own == list.path).map_or(&[] as &[_], |(_, related)| *related);
    let events = events["data"].as_array().map_or(&[] as &[Value], Vec::as_slice);
    let actions = Action::all().filter(|action| {
        action.page == list.path && action.has_object() && (action.applies)(found) && action.is_offered(work)
    });
    let address = |action: &Action| format!("/{mode}/{}/{id}/{}", list.path, action.name);
    html! {
        (notice.markup())
        p.kind { (text(list.singular)) }
        h1 { (heading) " " (status(&found["status"])) }
        div.actions {
            @for action in actions {
                (form(action, &address(action), &notice.entered(action, Some(id), found)))
            }
        }
        (link)
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

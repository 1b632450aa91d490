//! The page of an object: its fields, what happened to it, and what belongs to it.

use axum::http::HeaderName;
use axum::response::{IntoResponse as _, Response};
use domain::mails;
use foundation::id::CustomerId;
use futures_util::future::try_join3;
use maud::{Markup, html};
use serde_json::{Map, Value};

use crate::actions::Action;
use crate::address::is_id;
use crate::app::App;
use crate::catalog::{List, Payers};
use crate::failure::Failure;
use crate::fields::{amount, fields, status};
use crate::form::form;
use crate::layout::page;
use crate::notice::{Notice, copy};
use crate::qr::qr;
use crate::related::related;
use crate::session::AccountSession;
use crate::texts::{button, text};
use crate::timeline::timeline;

/// Has the browser load the page again after some seconds.
const REFRESH: HeaderName = HeaderName::from_static("refresh");

/// The page, with a notice at its beginning.
pub(crate) async fn show(
    app: &App,
    session: &AccountSession,
    list: &List,
    id: &str,
    notice: &Notice,
) -> Result<Response, Failure> {
    if !is_id(id) {
        return Err(Failure::NotFound);
    }
    let found = app.get(&session.caller, &format!("/v1/{}/{id}", list.resource)).await?;
    let link = async {
        match list.payers {
            Payers::Nothing => Ok(html! {}),
            Payers::Receipt => receipt(app, session, &found).await,
            Payers::Page => payers_page(&found),
            Payers::ReceiptsByEmail => receipts_by_email(app, session, id).await,
        }
    };
    let (related, timeline, link) =
        try_join3(related(app, session, list, id), timeline(app, session, list, id), link).await?;
    let title = format!("{} {id}", text(list.singular));
    let after = html! { (related) (timeline) };
    let page = page(session, list.path, &title, &content(session, list, &found, notice, (&link, &after)));
    let refresh = notice.is_awaited(&found).then_some([(REFRESH, "2")]);
    Ok((refresh, page).into_response())
}

/// The receipt of a payment, if it has paid an invoice or a link.
async fn receipt(app: &App, session: &AccountSession, payment: &Value) -> Result<Markup, Failure> {
    let parent = |field: &str, resource: &str| payment[field].as_str().map(|id| format!("/v1/{resource}/{id}"));
    let Some(parent) = parent("invoiceId", "invoices").or_else(|| parent("paymentLinkId", "payment_links")) else {
        return Ok(html! {});
    };
    let parent = app.get(&session.caller, &parent).await?;
    Ok(html! { @if let Some(url) = receipt_url(&parent, &payment["id"]) { p { a href=(url) { (text("Receipt")) } } } })
}

/// That a customer has stopped receipts by e-mail. It is not in /v1, so it is read here.
async fn receipts_by_email(app: &App, session: &AccountSession, id: &str) -> Result<Markup, Failure> {
    let Ok(customer) = id.parse::<CustomerId>() else { return Ok(html! {}) };
    let wants = mails::wants_receipts(app.api.pool(), session.caller.account_id, customer);
    let wants = wants.await.map_err(Failure::internal)?;
    Ok(html! {
        @if !wants { p { (text("This customer has stopped receipts by e-mail. Other e-mails are sent.")) } }
    })
}

/// Where the receipt of the payment that paid this is.
fn receipt_url(parent: &Value, payment: &Value) -> Option<String> {
    let is_paid = parent["status"] == "paid" && parent["paymentId"] == *payment;
    Some(format!("{}?payment={}", parent["url"].as_str()?, payment.as_str()?)).filter(|_| is_paid)
}

/// The page that payers open, to be sent to them.
fn payers_page(found: &Value) -> Result<Markup, Failure> {
    let Some(url) = found["url"].as_str() else { return Ok(html! {}) };
    let receipt = receipt_url(found, &found["paymentId"]);
    let code = if found["status"] == "open" {
        qr(url)?
    } else {
        html! {}
    };
    Ok(html! {
        section.panel {
            h2 { (text("Page for the payer")) }
            p {
                a href=(url) { (text("Payment page")) } " " (copy(url))
                @if found["object"] == "invoice" { " " a href={ (url) "/invoice.pdf" } { (text("PDF")) } }
                @if let Some(receipt) = &receipt { " " a href=(receipt) { (text("Receipt")) } }
            }
            (code)
        }
    })
}

fn content(
    session: &AccountSession,
    list: &List,
    found: &Value,
    notice: &Notice,
    (link, after): (&Markup, &Markup),
) -> Markup {
    let (mode, id) = (session.mode.name(), found["id"].as_str().unwrap_or_default());
    let heading = match amount(found, "amount") {
        amount if amount.is_empty() => id.to_owned(),
        amount => amount,
    };
    let actions = Action::all().filter(|action| {
        action.page == list.path && action.has_object && (action.applies)(found) && action.is_offered(session)
    });
    let address = |action: &Action| format!("/{mode}/{}/{id}/{}", list.path, action.name);
    html! {
        (notice.outcome(found))
        p.kind { (text(list.singular)) }
        h1 { (heading) " " (status(list.object(), &found["status"])) }
        div.actions {
            @for (page, field) in list.creations {
                @if let Some(action) = Action::find(page, "new").filter(|action| action.is_offered(session)) {
                    a.button href={ "/" (mode) "/" (page) "/new?" (field) "=" (id) } { (button(action.label)) }
                }
            }
            @for action in actions {
                (form(action, &address(action), &notice.entered(action, Some(id), found), found))
            }
        }
        (link)
        (fields(session.mode, found.as_object().unwrap_or(&Map::new()), found))
        (after)
    }
}

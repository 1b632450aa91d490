//! What happened to an object: its events with their deliveries and, for a payment, every request to its provider.

use domain::operations::State;
use domain::operations::admin::{self, OperationRow};
use domain::users;
use domain::webhooks::deliveries::{self, Delivery};
use foundation::id::{EventId, KeyId, PaymentId};
use foundation::money::Money;
use foundation::time::Timestamp;
use maud::{Markup, html};
use providers::OperationKind;
use serde_json::Value;

use crate::app::App;
use crate::catalog::{List, Timeline};
use crate::failure::Failure;
use crate::fields::{status, time};
use crate::session::Work;
use crate::texts::{text, words};

/// Events in a timeline.
const EVENTS: &str = "50";

/// What happened at a time, in milliseconds.
struct Entry {
    at: i64,
    shown: Markup,
}

/// The timeline of an object, newest first; empty for what has no events.
pub(crate) async fn timeline(app: &App, work: &Work, list: &List, id: &str) -> Result<Markup, Failure> {
    if list.timeline == Timeline::None {
        return Ok(html! {});
    }
    let mut entries = events(app, work, id).await?;
    if list.timeline == Timeline::EventsAndOperations {
        entries.extend(operations(app, work, id).await?);
    }
    entries.sort_by_key(|entry| -entry.at);
    Ok(html! {
        section {
            h2 { (text("Timeline")) }
            @if entries.is_empty() { p.empty { (text("None.")) } }
            ol.timeline { @for entry in &entries { li { (entry.shown) } } }
        }
    })
}

fn at(value: &Value) -> i64 {
    value.as_str().and_then(Timestamp::parse).map(Timestamp::as_millisecond).unwrap_or_default()
}

async fn events(app: &App, work: &Work, id: &str) -> Result<Vec<Entry>, Failure> {
    let found = app.get(&work.caller, &format!("/v1/events?objectId={id}&limit={EVENTS}")).await?;
    let events = found["data"].as_array().map_or(&[] as &[Value], Vec::as_slice);
    let ids: Vec<EventId> = events.iter().filter_map(|event| event["id"].as_str()?.parse().ok()).collect();
    let sent = deliveries::of_events(app.api.pool(), work.caller.account_id, &ids).await.map_err(Failure::internal)?;
    Ok(events.iter().map(|event| Entry { at: at(&event["createdAt"]), shown: of_event(work, event, &sent) }).collect())
}

fn of_event(work: &Work, event: &Value, sent: &[Delivery]) -> Markup {
    let (mode, id) = (work.mode.name(), event["id"].as_str().unwrap_or_default());
    let own: Vec<_> = sent.iter().filter(|delivery| delivery.event_id.to_string() == id).collect();
    html! {
        (time(&event["createdAt"])) " "
        a href={ "/" (mode) "/events/" (id) } { (words(event["type"].as_str().unwrap_or_default())) }
        @if !own.is_empty() {
            ul {
                @for delivery in own {
                    li {
                        a href={ "/" (mode) "/deliveries/" (delivery.id) } { (text("Delivery")) } " "
                        (status(&delivery.status.name().into()))
                        " " (text("attempt")) " " (delivery.attempt)
                        @if let Some(response) = delivery.response_status { ", " (text("response")) " " (response) }
                        @if let Some(failure) = &delivery.failure { ", " (words(failure)) }
                    }
                }
            }
        }
    }
}

async fn operations(app: &App, work: &Work, id: &str) -> Result<Vec<Entry>, Failure> {
    let (db, account) = (app.api.pool(), work.caller.account_id);
    let id: PaymentId = id.parse().map_err(|_| Failure::NotFound)?;
    let found = admin::of_payment(db, account, id).await.map_err(Failure::internal)?;
    let keys: Vec<KeyId> = found.iter().filter_map(|operation| operation.requested_by).collect();
    let users = users::of_keys(db, work.user.merchant_id, &keys).await.map_err(Failure::internal)?;
    Ok(found.iter().flat_map(|operation| of_operation(work, operation, &users)).collect())
}

/// An operation when it was requested, sent and completed.
fn of_operation(work: &Work, operation: &OperationRow, users: &[(KeyId, String)]) -> Vec<Entry> {
    let is_charge = operation.kind == OperationKind::Sale;
    let kind = if is_charge { text("Charge").to_owned() } else { words(operation.kind.name()) };
    let entry = |at: Timestamp, what: Markup| Entry {
        at: at.as_millisecond(),
        shown: html! { (time(&serde_json::json!(at))) " " (kind) " " (what) },
    };
    let money = operation.amount.zip(operation.currency).map(|(minor, currency)| Money { minor, currency }.to_string());
    // Only requests of the merchant's keys are logged.
    let is_logged = operation.requested_by.is_some_and(|key| users.iter().all(|(own, _)| *own != key));
    let requested = html! {
        (text("requested"))
        @if let Some(money) = &money { ": " (money) }
        ", " (requester(operation, users))
        @if let Some(request) = operation.request_id.as_ref().filter(|_| is_logged) {
            " (" a href={ "/" (work.mode.name()) "/requests/" (request) } { (text("request")) } ")"
        }
    };
    let mut entries = vec![entry(operation.created_at, requested)];
    let sent = |at: Timestamp, words: &str| entry(at, html! { (words) });
    entries.extend(operation.first_sent_at.map(|at| sent(at, text("sent to the provider"))));
    let again = operation.last_sent_at.filter(|at| Some(*at) != operation.first_sent_at);
    entries.extend(again.map(|at| sent(at, text("sent to the provider again"))));
    entries.extend(operation.finished_at.map(|at| entry(at, outcome(operation))));
    entries
}

fn outcome(operation: &OperationRow) -> Markup {
    html! {
        (match operation.state {
            State::Succeeded => text("accepted by the provider"),
            State::Declined => text("declined"),
            State::Failed => text("failed, and had no effect"),
            State::Ready | State::Claimed | State::Sending | State::Unknown => text("has no known outcome yet"),
        })
        @if let Some(failure) = &operation.failure { ": " (words(failure)) }
    }
}

/// Who requested it.
fn requester(operation: &OperationRow, users: &[(KeyId, String)]) -> Markup {
    let Some(key) = operation.requested_by else {
        return html! {
            @if operation.by_system { (text("by the system")) }
            @else if operation.background { (text("on schedule")) }
            @else { (text("by the payer")) }
        };
    };
    match users.iter().find(|(own, _)| *own == key) {
        Some((_, email)) => html! { (text("by")) " " (email) },
        None => html! { (text("by API key")) " " (key) },
    }
}

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
use crate::session::AccountSession;
use crate::texts::{self, filled, labelled, text, words_of};

/// Events in a timeline.
const EVENTS: &str = "50";

/// What happened at a time, in milliseconds.
struct Entry {
    at: i64,
    shown: Markup,
}

/// The timeline of an object, newest first; empty for what has no events.
pub(crate) async fn timeline(app: &App, session: &AccountSession, list: &List, id: &str) -> Result<Markup, Failure> {
    if list.timeline == Timeline::None {
        return Ok(html! {});
    }
    let mut entries = events(app, session, id).await?;
    if list.timeline == Timeline::EventsAndOperations {
        entries.extend(operations(app, session, id).await?);
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

async fn events(app: &App, session: &AccountSession, id: &str) -> Result<Vec<Entry>, Failure> {
    let found = app.get(&session.caller, &format!("/v1/events?objectId={id}&limit={EVENTS}")).await?;
    let events = found["data"].as_array().map_or(&[] as &[Value], Vec::as_slice);
    let ids: Vec<EventId> = events.iter().filter_map(|event| event["id"].as_str()?.parse().ok()).collect();
    let sent =
        deliveries::of_events(app.api.pool(), session.caller.account_id, &ids).await.map_err(Failure::internal)?;
    Ok(events
        .iter()
        .map(|event| Entry { at: at(&event["createdAt"]), shown: of_event(session, event, &sent) })
        .collect())
}

fn of_event(session: &AccountSession, event: &Value, sent: &[Delivery]) -> Markup {
    let (mode, id) = (session.mode.name(), event["id"].as_str().unwrap_or_default());
    let own: Vec<_> = sent.iter().filter(|delivery| delivery.event_id.to_string() == id).collect();
    html! {
        (time(&event["createdAt"])) " "
        a href={ "/" (mode) "/events/" (id) } { (words_of("eventType", event["type"].as_str().unwrap_or_default())) }
        @if !own.is_empty() {
            ul {
                @for delivery in own {
                    li {
                        a href={ "/" (mode) "/deliveries/" (delivery.id) } { (text("Delivery")) } " "
                        (status("webhook_delivery", &delivery.status.name().into())) " " (answered(delivery))
                    }
                }
            }
        }
    }
}

/// Which attempt it was, and what came of it.
fn answered(delivery: &Delivery) -> String {
    let attempt = filled("attempt {number}", &[("number", &delivery.attempt)]);
    let response = delivery.response_status.map(|status| filled("response {status}", &[("status", &status)]));
    let failure = delivery.failure.as_ref().map(|failure| words_of("failureReason", failure));
    texts::listed(&[Some(attempt), response, failure].into_iter().flatten().collect::<Vec<_>>())
}

async fn operations(app: &App, session: &AccountSession, id: &str) -> Result<Vec<Entry>, Failure> {
    let (db, account) = (app.api.pool(), session.caller.account_id);
    let id: PaymentId = id.parse().map_err(|_| Failure::NotFound)?;
    let found = admin::of_payment(db, account, id).await.map_err(Failure::internal)?;
    let keys: Vec<KeyId> = found.iter().filter_map(|operation| operation.requested_by).collect();
    let users = users::of_keys(db, session.user.merchant_id, &keys).await.map_err(Failure::internal)?;
    Ok(found.iter().flat_map(|operation| of_operation(session, operation, &users)).collect())
}

/// An operation when it was requested, sent and completed.
fn of_operation(session: &AccountSession, operation: &OperationRow, users: &[(KeyId, String)]) -> Vec<Entry> {
    let is_charge = operation.kind == OperationKind::Sale;
    let kind = if is_charge { text("Charge").to_owned() } else { words_of("operation", operation.kind.name()) };
    let named = |english: &'static str| filled(english, &[("operation", &kind)]);
    let entry = |at: Timestamp, what: Markup| Entry {
        at: at.as_millisecond(),
        shown: html! { (time(&serde_json::json!(at))) " " (what) },
    };
    let requested = named("{operation} requested");
    let requested = match operation.amount.zip(operation.currency) {
        Some((minor, currency)) => labelled(&requested, texts::money(Money { minor, currency })),
        None => requested,
    };
    // Only requests of the merchant's keys are logged.
    let is_logged = operation.requested_by.is_some_and(|key| users.iter().all(|(own, _)| *own != key));
    let requested = html! {
        (requested) (text(", ")) (requester(operation, users))
        @if let Some(request) = operation.request_id.as_ref().filter(|_| is_logged) {
            " (" a href={ "/" (session.mode.name()) "/requests/" (request) } { (text("request")) } ")"
        }
    };
    let mut entries = vec![entry(operation.created_at, requested)];
    let sent = |at: Timestamp, english: &'static str| entry(at, html! { (named(english)) });
    entries.extend(operation.first_sent_at.map(|at| sent(at, "{operation} sent to the provider")));
    let again = operation.last_sent_at.filter(|at| Some(*at) != operation.first_sent_at);
    entries.extend(again.map(|at| sent(at, "{operation} sent to the provider again")));
    entries.extend(operation.finished_at.map(|at| entry(at, outcome(operation, &kind))));
    entries
}

fn outcome(operation: &OperationRow, kind: &str) -> Markup {
    let outcome = match operation.state {
        State::Succeeded => "{operation} accepted by the provider",
        State::Declined => "{operation} declined",
        State::Failed => "{operation} failed, and had no effect",
        State::Ready | State::Sending | State::Unknown => "{operation} has no known outcome yet",
    };
    let outcome = filled(outcome, &[("operation", &kind)]);
    html! {
        @match &operation.failure {
            Some(failure) => (labelled(&outcome, words_of("declineCode", failure))),
            None => (outcome),
        }
    }
}

/// Who requested it.
fn requester(operation: &OperationRow, users: &[(KeyId, String)]) -> String {
    let Some(key) = operation.requested_by else {
        let who = match (operation.by_system, operation.background) {
            (true, _) => text("by the system"),
            (false, true) => text("on schedule"),
            (false, false) => text("by the payer"),
        };
        return who.to_owned();
    };
    match users.iter().find(|(own, _)| *own == key) {
        Some((_, email)) => filled("by {email}", &[("email", email)]),
        None => filled("by API key {key}", &[("key", &key)]),
    }
}

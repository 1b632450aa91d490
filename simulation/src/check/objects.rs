//! Every object has consistent fields, in every response, every event and at the end; and what was created exists.

use std::collections::BTreeMap;

use serde_json::Value;

use super::calendar::{days_later, parse_time};
use super::{Evidence, Violations};
use crate::history::Provider;

/// The type of each prefix of an id.
const PREFIXES: &[(&str, &str)] = &[
    ("customer", "cus_"),
    ("payment_method", "pm_"),
    ("payment", "pay_"),
    ("refund", "ref_"),
    ("plan", "plan_"),
    ("subscription", "sub_"),
    ("invoice", "inv_"),
    ("collection_attempt", "att_"),
    ("recurring_invoice", "rinv_"),
    ("payment_link", "plink_"),
    ("dispute", "dp_"),
];

/// What the tokens of the mock provider do: the decline, and the card.
const TOKENS: &[(&str, Option<&str>)] = &[
    ("tok_ok", None),
    ("tok_partial", None),
    ("tok_declined", Some("declined")),
    ("tok_insufficient", Some("insufficient_funds")),
    ("tok_refused", Some("card_not_supported")),
];

/// Approved once the cardholder has passed the challenge.
const CHALLENGED: &str = "tok_challenged";

pub(super) fn check(evidence: &Evidence<'_>, violations: &mut Violations) {
    let responses =
        || evidence.responses().filter(|(_, response)| response.succeeded()).map(|(_, response)| &response.json);
    let listed = responses().filter_map(|json| json["data"].as_array()).flatten();
    let announced = evidence.books.events.iter().map(|event| &event["data"]["object"]);
    let attempts = evidence.state.attempts.values().flatten();
    for object in responses().chain(listed).chain(announced).chain(evidence.state.objects.values()).chain(attempts) {
        for fault in [form(object), payment(object), invoice(object, evidence.history.timezone()), dependent(object)]
            .into_iter()
            .flatten()
        {
            violations.0.push(format!("{} has {fault}: {object}", object["id"]));
        }
    }
    for customer in evidence.state.all("customer") {
        let is_of_customer = |card: &&Value| card["customerId"] == customer["id"];
        let cards = evidence.state.all("payment_method").filter(is_of_customer);
        let defaults: Vec<bool> = cards.map(|card| card["isDefault"] == true).collect();
        let count = defaults.iter().filter(|is_default| **is_default).count();
        // The default passes to no other card if it is detached.
        let may_have_none = defaults.is_empty() || evidence.detached().any(|card| is_of_customer(&card));
        violations.check(count == 1 || (count == 0 && may_have_none), || {
            format!("{} has {count} default cards", customer["id"])
        });
    }
    existence(evidence, violations);
    requested(evidence, violations);
    for (listed, alone) in &evidence.state.differing {
        violations.0.push(format!("a list shows {listed}, and alone it is {alone}"));
    }
    for path in &evidence.state.repeated {
        violations.0.push(format!("an object is on two pages of {path}"));
    }
    for path in &evidence.state.failed {
        violations.0.push(format!("{path} cannot be read at the end"));
    }
}

fn form(object: &Value) -> Option<&'static str> {
    if object["deleted"] == true {
        return None;
    }
    let (_, prefix) = PREFIXES.iter().find(|(kind, _)| object["object"] == *kind)?;
    let id = object["id"].as_str().and_then(|id| id.strip_prefix(prefix)).unwrap_or_default();
    if id.len() != 26 || id.chars().any(|letter| !letter.is_ascii_uppercase() && !letter.is_ascii_digit()) {
        return Some("a wrong id");
    }
    let is_time =
        |(field, value): (&String, &Value)| !field.ends_with("At") || is_date(value) || parsed(value).is_some();
    let all_times = object.as_object().is_some_and(|fields| fields.iter().all(is_time));
    if !all_times || parsed(&object["createdAt"]).is_none() {
        return Some("a wrong time");
    }
    (object["livemode"] != false).then_some("a wrong livemode")
}

/// `startAt` of a subscription is a date.
fn is_date(value: &Value) -> bool {
    value.as_str().is_some_and(|text| super::calendar::parse_day(text).is_some())
}

fn parsed(value: &Value) -> Option<i64> {
    parse_time(value.as_str()?)
}

fn number(object: &Value, field: &str) -> i64 {
    object[field].as_i64().unwrap_or(0)
}

/// docs/payments.md, Payments: amounts and the fields of each status.
fn payment(payment: &Value) -> Option<&'static str> {
    if payment["object"] != "payment" {
        return None;
    }
    let [requested, amount, captured, refunded] =
        ["amountRequested", "amount", "amountCaptured", "amountRefunded"].map(|field| number(payment, field));
    let refunds = payment["refunds"].as_array()?;
    let sum = |status: &str| -> i64 {
        refunds.iter().filter(|refund| refund["status"] == status).map(|refund| number(refund, "amount")).sum()
    };
    let disputed = number(payment, "amountDisputed");
    if sum("succeeded") != refunded
        || refunded + sum("pending") > captured
        || captured > amount
        || amount > requested
        || !(0..=captured).contains(&disputed)
    {
        return Some("amounts that contradict each other");
    }
    let status = payment["status"].as_str().unwrap_or_default();
    let is_right = match status {
        "processing" | "requires_action" | "declined" | "failed" => captured == 0 && amount == requested,
        "authorized" => captured == 0 && amount == requested && payment["capture"] == false,
        "expired" => captured == 0 && payment["capture"] == false,
        "partially_authorized" => amount < requested && refunded == 0,
        "pending_settlement" => captured > 0 && refunded == 0 && payment["settled"] == false,
        "settled" => captured > 0 && refunded == 0 && payment["settled"] == true,
        "partially_refunded" => 0 < refunded && refunded < captured,
        "refunded" => captured > 0 && refunded == captured,
        "cancelled" => refunded == 0 && payment["settled"] == false,
        _ => false,
    };
    if !is_right {
        return Some("amounts that contradict its status");
    }
    let decline = match payment["declineCode"].as_str() {
        None => payment.get("declineType").is_none() && status != "declined",
        Some("declined" | "insufficient_funds" | "authentication_failed") => {
            payment["declineType"] == "soft" && status == "declined"
        }
        Some("card_not_supported") => payment["declineType"] == "hard" && status == "declined",
        Some(_) => false,
    };
    if !decline {
        return Some("a wrong decline");
    }
    if payment["nextAction"]["url"].is_string() != (status == "requires_action") {
        return Some("a wrong nextAction");
    }
    let saved = payment.get("paymentMethodId").is_some();
    if saved && payment.get("card").is_none() {
        return Some("no card");
    }
    let has_code = payment["failureCode"].is_string() && payment["failureMessage"].is_string();
    (status == "failed" && !has_code).then_some("no failureCode")
}

/// docs/billing.md, Invoices: the total, the due date and the fields of each status.
fn invoice(invoice: &Value, zone: &str) -> Option<&'static str> {
    if invoice["object"] != "invoice" {
        return None;
    }
    let items = invoice["items"].as_array()?;
    let sum: i64 = items.iter().map(|item| number(item, "quantity") * number(item, "unitAmount")).sum();
    let total = sum + number(invoice, "amountTax") - number(invoice, "amountDiscount");
    if !items.is_empty() && total != number(invoice, "amount") {
        return Some("a wrong total");
    }
    let (status, has) = (invoice["status"].as_str()?, |field| invoice.get(field).is_some());
    let issued = ["number", "issuedAt", "dueAt", "url"].map(has);
    let was_issued = issued == [true; 4];
    let paid = ["paidAt", "paymentId"].map(has);
    let was_paid = paid == [true; 2] && number(invoice, "amountPaid") == number(invoice, "amount");
    let is_unpaid = paid == [false; 2] && number(invoice, "amountPaid") == 0;
    let is_right = match status {
        "draft" => !has("number") && !has("issuedAt") && is_unpaid,
        "open" => was_issued && is_unpaid && !has("nextAttemptAt"),
        "scheduled" => was_issued && is_unpaid && has("collectAt"),
        "paid" => was_issued && was_paid && !has("nextAttemptAt"),
        "voided" => (was_paid || is_unpaid) && !has("nextAttemptAt"),
        _ => false,
    };
    if !is_right || has("voidedAt") != (status == "voided") {
        return Some("fields that contradict its status");
    }
    let (issued_at, due_at) = (parsed(&invoice["issuedAt"]), parsed(&invoice["dueAt"]));
    let days = match invoice["paymentTerms"].as_str() {
        Some("due_on_receipt") => 0,
        Some(terms) => terms.strip_prefix("net_").and_then(|days| days.parse().ok()).unwrap_or(-1),
        None => return None,
    };
    (was_issued && due_at != issued_at.map(|at| days_later(zone, at, days))).then_some("a wrong dueAt")
}

/// The fields that depend on the status of other objects.
fn dependent(object: &Value) -> Option<&'static str> {
    let (status, has) = (object["status"].as_str().unwrap_or_default(), |field| object.get(field).is_some());
    let is_right = match object["object"].as_str()? {
        "subscription" => {
            has("nextBillingAt") == (status != "cancelled")
                && has("cancelledAt") == (status == "cancelled")
                && has("currentPeriodStart") == has("currentPeriodEnd")
                && (status == "cancelled" || has("currentPeriodStart") == (status != "scheduled"))
        }
        "recurring_invoice" => has("nextInvoiceDate") == (status == "active"),
        "payment_link" => {
            [has("paidAt"), has("paymentId")] == [status == "paid"; 2] && has("cancelledAt") == (status == "cancelled")
        }
        "payment_method" => has("last4") == (status == "active"),
        _ => true,
    };
    (!is_right).then_some("fields that contradict its status")
}

/// What was created exists at the end.
fn existence(evidence: &Evidence<'_>, violations: &mut Violations) {
    for (request, response) in evidence.responses().filter(|(_, response)| response.succeeded()) {
        let (created, Some(id)) = (&response.json, response.json["id"].as_str()) else { continue };
        if created["object"] == "refund" {
            let payment = created["paymentId"].as_str().and_then(|id| evidence.state.objects.get(id));
            let mut refunds = payment.and_then(|payment| payment["refunds"].as_array()).into_iter().flatten();
            let exists = refunds.any(|refund| refund["id"] == created["id"] && refund["amount"] == created["amount"]);
            violations.check(exists, || format!("{request} returned {id}, which does not exist"));
            continue;
        }
        // A card that the provider refused later is not listed.
        let is_pending = created["object"] == "payment_method" && created["status"] == "processing";
        let exists = evidence.state.objects.contains_key(id);
        if evidence.is_detached(id) {
            violations.check(!exists, || format!("{id} was detached and exists"));
        } else {
            violations.check(is_pending || (exists && created["deleted"] != true), || {
                format!("{request} returned {created}, and at the end it exists: {exists}")
            });
        }
    }
}

/// A created object has the fields of the request; a payment by a test token has the outcome of the token.
fn requested(evidence: &Evidence<'_>, violations: &mut Violations) {
    let cards: BTreeMap<&str, &str> = evidence
        .responses()
        .filter(|(_, response)| response.json["object"] == "payment_method")
        .filter_map(|(_, response)| Some((response.json["id"].as_str()?, response.sent.1["paymentToken"].as_str()?)))
        .collect();
    let creations = evidence.responses().filter(|(_, response)| response.status == 201);
    for (request, response) in creations.filter(|(_, response)| !response.is_replay()) {
        let (sent, created) = (&response.sent.1, &response.json);
        for field in ["customerId", "planId", "description", "email", "timezone", "startAt", "startDate", "externalId"]
        {
            violations.check(sent.get(field).is_none_or(|value| *value == created[field]), || {
                format!("{request} returned another {field}: {created}")
            });
        }
        let amount = if created["object"] == "payment" { "amountRequested" } else { "amount" };
        violations.check(sent.get("amount").is_none_or(|value| *value == created[amount]), || {
            format!("{request} returned another amount: {created}")
        });
        if created["object"] != "payment" {
            continue;
        }
        let saved = || cards.get(sent["paymentMethodId"].as_str()?).copied();
        let Some(token) = sent["paymentToken"].as_str().or_else(saved) else { continue };
        let id = created["id"].as_str().unwrap_or_default();
        let Some(payment) = evidence.state.objects.get(id) else { continue };
        let decline = TOKENS.iter().find(|(name, _)| *name == token).and_then(|(_, decline)| *decline);
        let requested = number(payment, "amountRequested");
        let is_part = token == "tok_partial" && evidence.provider_of(id) == Some(Provider::Mock);
        let amount = if is_part { requested / 2 } else { requested };
        let is_right = match payment["status"].as_str() {
            _ if evidence.is_in_review(payment) => true,
            // The provider cannot be reached while Postgres, which contains it, is away.
            Some("failed") => {
                let code = &payment["failureCode"];
                let is_entered = evidence.books.resolved.contains(id);
                code == "provider_unavailable"
                    || (code == "withdrawn"
                        && payment["paymentMethodId"].as_str().is_some_and(|id| evidence.is_detached(id)))
                    || (code == "amount_mismatch" && evidence.has_fee())
                    || (code == "provider_refused" && is_entered)
            }
            Some("declined") if token == CHALLENGED => payment["declineCode"] == "authentication_failed",
            _ => payment["declineCode"].as_str() == decline && number(payment, "amount") == amount,
        };
        violations.check(is_right, || format!("{request} with {token} became {payment}"));
    }
}

//! docs/billing.md, Recurring invoices: each date of the cadence has one invoice.

use serde_json::Value;

use super::billing::of;
use super::calendar::{cycle, date, day, local_day, midnight, month_length, months_later, parse_day, parse_time, text};
use super::{Evidence, Violations};

/// Within this time of its beginning a cycle may not be billed yet.
const DELAY: i64 = 300_000;

pub(super) fn check(evidence: &Evidence<'_>, violations: &mut Violations) {
    let Some(now) = parse_time(&evidence.state.now) else { return };
    for recurring in evidence.state.all("recurring_invoice") {
        let invoices = of(evidence, "recurringInvoiceId", recurring);
        let requested = |action: &str| {
            let path = format!("/v1/recurring_invoices/{}{action}", recurring["id"].as_str().unwrap_or_default());
            let mut requests = evidence.history.requests.iter().zip(evidence.responses);
            // If there was no response, it may have been changed.
            requests.any(|(timed, response)| match response {
                Some(crate::client::Response::Received(response)) => response.sent.0 == path,
                Some(crate::client::Response::Lost) | None => {
                    timed.request.operation() == format!("POST /v1/recurring_invoices/{{id}}{action}")
                }
                Some(crate::client::Response::Skipped) => false,
            })
        };
        if requested("") {
            continue;
        }
        match faults(recurring, &invoices, now, evidence.history.timezone(), requested("/pause")) {
            Some(faults) if faults.is_empty() => {}
            faults => violations.0.push(format!("{faults:?} at {}: {recurring}, {invoices:?}", evidence.state.now)),
        }
    }
}

/// The first day on or after the start that the cadence allows.
fn first_date(recurring: &Value, start: i64) -> i64 {
    let (year, month, _) = date(start);
    let of_month = match recurring["cadence"]["dayOfMonth"].as_i64() {
        _ if recurring["lastDayOfMonth"] == true => 31,
        None => return start,
        Some(of_month) => of_month,
    };
    let this = day(year, month, of_month.min(month_length(year, month)));
    if this >= start { this } else { on_day(months_later(day(year, month, 1), 1), of_month) }
}

/// This day in the month of another one, or the last of the month.
fn on_day(other: i64, of_month: i64) -> i64 {
    let (year, month, _) = date(other);
    day(year, month, of_month.min(month_length(year, month)))
}

/// `None` if a field is missing. No cadence is by the year.
fn faults(recurring: &Value, invoices: &[&Value], now: i64, zone: &str, paused: bool) -> Option<Vec<&'static str>> {
    let unit = recurring["cadence"]["unit"].as_str()?;
    let interval = recurring["cadence"]["interval"].as_i64().unwrap_or(1);
    let start = parse_day(recurring["startDate"].as_str()?)?;
    let anchor = first_date(recurring, start);
    let of_month =
        if recurring["lastDayOfMonth"] == true { Some(31) } else { recurring["cadence"]["dayOfMonth"].as_i64() };
    let nth = |n: i64| {
        let date = cycle(anchor, unit, interval, n);
        of_month.map_or(date, |of_month| on_day(date, of_month))
    };
    let today = local_day(zone, recurring["createdAt"].as_str().and_then(parse_time)?);
    let end = recurring["endDate"].as_str().and_then(parse_day).unwrap_or(i64::MAX);
    let mut n = (0..).find(|n| nth(*n) >= today)?;
    let mut faults = Vec::new();
    let mut check = |holds: bool, fault| {
        if !holds {
            faults.push(fault)
        }
    };
    for invoice in invoices {
        let begin = invoice["billingPeriod"].as_str().and_then(|period| parse_day(period.split('/').next()?))?;
        while paused && nth(n) < begin {
            n += 1;
        }
        let period = format!("{}/{}", text(nth(n)), text(nth(n + 1) - 1));
        check(invoice["billingPeriod"] == period, "a wrong, missing or double period");
        check(begin <= end, "an invoice after the end");
        let issued = invoice["issuedAt"].as_str().and_then(parse_time);
        check(issued.is_none_or(|at| at >= midnight(zone, begin)), "an invoice was issued early");
        check(
            issued.is_some() == (recurring["mode"] != "draft_for_review") || invoice["status"] == "voided",
            "a wrong mode",
        );
        let template = &recurring["template"];
        let is_of_template =
            ["items", "currency", "paymentTerms"].iter().all(|field| invoice[*field] == template[*field])
                && invoice["customerId"] == recurring["customerId"];
        check(is_of_template, "an invoice differs from the template");
        n += 1;
    }
    check(recurring["occurrenceCount"] == invoices.len(), "a wrong occurrenceCount");
    let next = recurring["nextInvoiceDate"].as_str().and_then(parse_day);
    while paused && next.is_some_and(|next| nth(n) < next) {
        n += 1;
    }
    match recurring["status"].as_str()? {
        "active" => {
            check(next == Some(nth(n)) && nth(n) <= end, "a wrong nextInvoiceDate");
            check(midnight(zone, nth(n)) + DELAY > now, "a cycle was not billed");
        }
        "completed" => check(nth(n) > end || paused, "completed too early"),
        "parked" => check(false, "parked"),
        _ => {}
    }
    Some(faults)
}

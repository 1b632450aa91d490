//! docs/billing.md: once an invoice, a link or a subscription was stopped, no request that charges for it is sent, nor one
//! that collects with a detached card. Nothing else fails as withdrawn. And no charge follows one that was taken and not
//! given back.

use serde_json::Value;

use super::{Evidence, Line, Sent, Violations};
use crate::client::{ReceivedResponse, Response};

const SCHEDULE: &str = "POST /v1/invoices/{id}/schedule";
const CANCEL_SCHEDULE: &str = "POST /v1/invoices/{id}/cancel_schedule";

pub(super) fn check(evidence: &Evidence<'_>, violations: &mut Violations) {
    for (request, stopped) in evidence.responses().filter(|(_, response)| response.status == 200) {
        let is_concerned: &dyn Fn(&Value) -> bool = match request.operation().as_str() {
            "POST /v1/invoices/{id}/void" => &|payment| payment["invoiceId"] == stopped.json["id"],
            "POST /v1/payment_links/{id}/cancel" => &|payment| payment["paymentLinkId"] == stopped.json["id"],
            CANCEL_SCHEDULE => {
                &|payment| payment["invoiceId"] == stopped.json["id"] && is_collection(evidence, payment, stopped)
            }
            "POST /v1/subscriptions/{id}/cancel" => &|payment| {
                let invoice = payment["invoiceId"].as_str().and_then(|id| evidence.state.objects.get(id));
                invoice.is_some_and(|invoice| invoice["subscriptionId"] == stopped.json["id"])
                    && is_collection(evidence, payment, stopped)
            },
            "DELETE /v1/payment_methods/{id}" => {
                &|payment| payment.get("invoiceId").is_some() && payment["paymentMethodId"] == stopped.json["id"]
            }
            _ => continue,
        };
        for sent in evidence.books.sent.iter().filter(|sent| sent.at_us > stopped.received_us.cast_signed()) {
            let payment = evidence.state.objects.get(&sent.payment);
            let is_late = payment.is_some_and(is_concerned);
            violations.check(!is_late, || format!("{request} succeeded, and later a request was sent for {payment:?}"));
        }
    }
    for payable in evidence.state.all("invoice").chain(evidence.state.all("payment_link")) {
        charged_again(evidence, payable, violations);
    }
    withdrawn(evidence, violations);
}

/// A payment fails as withdrawn only if its card was detached, or the merchant has stopped what it pays; an attempt only
/// in the second case.
fn withdrawn(evidence: &Evidence<'_>, violations: &mut Violations) {
    for payment in evidence.state.all("payment").filter(|payment| payment["failureCode"] == "withdrawn") {
        let is_detached = payment["paymentMethodId"].as_str().is_some_and(|id| evidence.is_detached(id));
        let invoice = payment["invoiceId"].as_str().and_then(|id| evidence.state.objects.get(id));
        let is_stopped = invoice.is_some_and(|invoice| is_stopped(evidence, invoice));
        violations.check(is_detached || is_stopped, || format!("was withdrawn although nothing stopped it: {payment}"));
    }
    for (id, attempts) in &evidence.state.attempts {
        for attempt in attempts.iter().filter(|attempt| attempt["declineCode"] == "withdrawn") {
            violations.check(is_stopped(evidence, &evidence.state.objects[id]), || {
                format!("was withdrawn although nobody stopped the collection of {id}: {attempt}")
            });
        }
    }
}

/// Whether the merchant has voided the invoice, cancelled its subscription, or may have cancelled its collection.
fn is_stopped(evidence: &Evidence<'_>, invoice: &Value) -> bool {
    let subscription = invoice["subscriptionId"].as_str().and_then(|id| evidence.state.objects.get(id));
    let is_cancelled = subscription.is_some_and(|subscription| subscription["status"] == "cancelled");
    let mut requests = evidence.history.requests.iter().zip(evidence.responses);
    let leaves_collection = requests.any(|(timed, response)| {
        timed.request.operation() == CANCEL_SCHEDULE
            && match response {
                Some(Response::Received(response)) => cancels_schedule(evidence, response, invoice),
                Some(Response::Lost) | None => true,
                Some(Response::Skipped) => false,
            }
    });
    invoice["status"] == "voided" || is_cancelled || leaves_collection
}

/// Whether the request with this response may have cancelled the collection of the invoice. A request whose commit was
/// lost is executed again, and may then find nothing to cancel.
fn cancels_schedule(evidence: &Evidence<'_>, response: &ReceivedResponse, invoice: &Value) -> bool {
    let is_named = invoice["id"].as_str().is_some_and(|id| response.sent.0.contains(id));
    let may_have_failed_later = response.status >= 500 || evidence.history.breaks_postgres();
    (response.status == 200 && response.json["id"] == invoice["id"]) || (is_named && may_have_failed_later)
}

/// Whether the payment is a collection that no later request of the merchant has asked for.
fn is_collection(evidence: &Evidence<'_>, payment: &Value, stopped: &ReceivedResponse) -> bool {
    let mut requests = evidence.history.requests.iter().zip(evidence.responses);
    let is_scheduled_again = requests.any(|(timed, response)| {
        timed.request.operation() == SCHEDULE
            && match response {
                Some(Response::Received(response)) => {
                    response.received_us > stopped.sent_us && response.json["id"] == payment["invoiceId"]
                }
                Some(Response::Lost) | None => true,
                Some(Response::Skipped) => false,
            }
    });
    payment.get("paymentMethodId").is_some() && !is_scheduled_again
}

/// While a charge stands, no other is sent for the same invoice or link.
fn charged_again(evidence: &Evidence<'_>, payable: &Value, violations: &mut Violations) {
    let is_of_payable = |line: &&Line| {
        let payment = line.payment.as_deref().and_then(|id| evidence.state.objects.get(id));
        line.is_charge()
            && payment
                .is_some_and(|payment| [&payment["invoiceId"], &payment["paymentLinkId"]].contains(&&payable["id"]))
    };
    let mut charges: Vec<&Line> = evidence.ledger.iter().filter(is_of_payable).collect();
    charges.sort_by_key(|line| line.booked_us);
    for pair in charges.windows(2) {
        let returned = returned_us(evidence, pair[0]);
        let of_payment = |sent: &&Sent| pair[1].payment.as_ref() == Some(&sent.payment);
        let sent_us = evidence.books.sent.iter().filter(of_payment).map(|sent| sent.at_us).min();
        violations.check(returned.is_some_and(|returned| returned <= sent_us.unwrap_or(pair[1].booked_us)), || {
            format!("{payable} was charged again while a charge stood: {pair:?}")
        });
    }
}

/// When a charge was voided or refunded in full.
fn returned_us(evidence: &Evidence<'_>, charge: &Line) -> Option<i64> {
    let mut left = charge.amount;
    let follows = |line: &&Line| line.approved && line.parent.as_ref() == Some(&charge.id) && line.kind != "capture";
    let mut children: Vec<&Line> = evidence.ledger.iter().filter(follows).collect();
    children.sort_by_key(|line| line.booked_us);
    children.into_iter().find_map(|line| {
        left -= if line.kind == "void" { charge.amount } else { line.amount };
        (left <= 0).then_some(line.booked_us)
    })
}

//! What a history leaves.

use serde_json::Value;

use super::books::{Books, Line};
use crate::auditor::State;
use crate::client::{ReceivedResponse, Response};
use crate::history::{Fault, History, Provider, Request};
use crate::receiver::Delivery;
use crate::system::Role;

/// All that the checks use.
pub struct Evidence<'a> {
    /// What was requested.
    pub history: &'a History,
    /// The responses, in the order of the requests.
    pub responses: &'a [Option<Response>],
    /// What the API shows at the end.
    pub state: State,
    /// What arrived at the webhook endpoint, in order.
    pub deliveries: Vec<Delivery>,
    /// The secret of the endpoint.
    pub secret: String,
    /// The ledgers of the providers.
    pub ledger: Vec<Line>,
    /// What only the database shows.
    pub books: Books,
}

impl Evidence<'_> {
    /// The requests with the responses that were received.
    pub fn responses(&self) -> impl Iterator<Item = (&Request, &ReceivedResponse)> {
        self.history.requests.iter().zip(self.responses).filter_map(|(timed, response)| match response {
            Some(Response::Received(response)) => Some((&timed.request, response)),
            Some(Response::Lost | Response::Skipped) | None => None,
        })
    }

    /// The provider that has charged a payment or declined it.
    pub fn provider_of(&self, payment: &str) -> Option<Provider> {
        self.ledger.iter().find(|line| line.payment.as_deref() == Some(payment)).map(|line| line.provider)
    }

    /// Whether the outcome of a payment, at a provider of class C, is left to a person.
    pub fn is_in_review(&self, payment: &Value) -> bool {
        payment["id"].as_str().is_some_and(|id| self.books.in_review.contains(id))
    }

    /// The detached cards.
    pub fn detached(&self) -> impl Iterator<Item = &Value> {
        let is_detached = |event: &&Value| event["type"] == "payment_method.detached";
        self.books.events.iter().filter(is_detached).map(|event| &event["data"]["object"])
    }

    /// Whether the card was detached.
    pub fn is_detached(&self, card: &str) -> bool {
        self.detached().any(|detached| detached["id"] == card)
    }

    /// Whether a collection attempt has failed, and no request of the merchant has stopped it.
    pub fn has_failed(&self, attempt: &Value) -> bool {
        attempt["status"] == "failed" && attempt["declineCode"] != "withdrawn"
    }

    /// Whether an invoice or a payment link has a payment in review.
    pub fn awaits_review(&self, payable: &Value) -> bool {
        self.state.all("payment").any(|payment| {
            self.is_in_review(payment) && [&payment["invoiceId"], &payment["paymentLinkId"]].contains(&&payable["id"])
        })
    }

    /// Whether the card gateway has added a fee that nobody expected.
    pub fn has_fee(&self) -> bool {
        self.history.faults.iter().any(|step| matches!(step.fault, Fault::Fee { .. }))
    }

    /// Whether the clock of a process that this concerns may have been wrong.
    pub fn has_wrong_clock(&self, concerned: impl Fn(Role) -> bool) -> bool {
        let faults = &self.history.faults;
        faults.iter().any(|step| matches!(step.fault, Fault::WallClock { role, .. } if concerned(role)))
    }
}

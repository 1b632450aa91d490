//! Requests that move money: payments, their changes, links and pages.

use serde_json::json;

use super::{Generator, TOKENS};
use crate::history::{Content, Request, get, post};

impl Generator {
    pub(super) fn payment_by_token(&mut self) -> Request {
        let authorizes = self.random.one_in(3);
        self.payment_of(authorizes)
    }

    pub(super) fn payment_of(&mut self, authorizes: bool) -> Request {
        // Most authorizations are approved, since captures and voids need them.
        let token = if authorizes && !self.random.one_in(3) { "tok_ok" } else { *self.pick(&TOKENS) };
        let mut body = json!({"amount": self.amount(), "currency": "USD", "paymentToken": token});
        if authorizes {
            body["capture"] = false.into();
        }
        self.creating(if authorizes { "authorization" } else { "payment" }, "/v1/payments", body)
    }

    pub(super) fn payment_by_card(&mut self) -> Request {
        let body = json!({"amount": self.amount(), "currency": "USD", "paymentMethodId": self.reference("card")});
        self.creating("payment", "/v1/payments", body)
    }

    /// In full or in part; sometimes of a payment that is captured already.
    pub(super) fn capture(&mut self) -> Request {
        let kind = if self.random.one_in(8) { "payment" } else { "authorization" };
        let path = format!("/v1/payments/{}/capture", self.reference(kind));
        post(path, if self.random.one_in(2) { json!({"amount": 1 + self.random.below(1_500)}) } else { json!({}) })
    }

    pub(super) fn void(&mut self) -> Request {
        let kind = *self.pick(&["authorization", "payment"]);
        post(format!("/v1/payments/{}/void", self.reference(kind)), json!({}))
    }

    /// In full or in part; every second one with an ID that may have been used before for the same payment.
    pub(super) fn refund(&mut self) -> Request {
        let kind = *self.pick(&["payment", "payment", "authorization"]);
        let path = format!("/v1/payments/{}/refund", self.reference(kind));
        let mut body = if self.random.one_in(4) { json!({}) } else { json!({"amount": 1 + self.random.below(700)}) };
        if self.random.one_in(2) {
            body["externalId"] = format!("return-{}", self.random.below(2)).into();
        }
        post(path, body)
    }

    /// A part of the latest payment.
    pub(super) fn refund_of_latest(&mut self) -> Request {
        let latest = self.created.get("payment").map_or(0, |count| count - 1);
        post(format!("/v1/payments/{{payment.{latest}}}/refund"), json!({"amount": 1 + self.random.below(700)}))
    }

    pub(super) fn link(&mut self) -> Request {
        let mut body = json!({"amount": self.amount(), "currency": "USD", "description": "A ticket"});
        if self.random.one_in(3) {
            // Soon, or in some days.
            body["expiresAt"] = (*self.pick(&["2026-01-30T22:00:30Z", "2026-02-03T12:00:00+01:00"])).into();
        }
        self.creating("link", "/v1/payment_links", body)
    }

    /// A cardholder submits the form of a page.
    pub(super) fn page(&mut self, kind: &str) -> Request {
        let (path, token) = (format!("{{{kind}.{}.url}}", self.number(kind)), *self.pick(&TOKENS));
        Request { content: Content::Form(format!("token={token}")), ..get(path) }
    }
}

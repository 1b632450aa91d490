//! Payers who want to harm the merchant, or who make mistakes.

use serde_json::json;

use super::Generator;
use crate::history::{Content, Request, get, post};

/// How many payments with one kind of token follow each other.
const ATTACK: usize = 6;

impl Generator {
    /// A form that cannot succeed, or several payments whose cards are refused before they reach an issuer.
    pub(super) fn hostile(&mut self) -> Request {
        let kind = if self.random.one_in(3) { "invoice" } else { "link" };
        let form = match self.random.below(6) {
            0 => "token=".to_owned(),
            1 => "tips=yes".to_owned(),
            2 => "token=tok_other".to_owned(),
            3 => "token=tok_refused".to_owned(),
            4 => "token=tok_incomplete".to_owned(),
            _ => return self.attack(),
        };
        let path = format!("{{{kind}.{}.url}}", self.number(kind));
        Request { content: Content::Form(form), ..get(path) }
    }

    fn attack(&mut self) -> Request {
        let token = *self.pick(&["tok_incomplete", "tok_incomplete", "tok_refused"]);
        self.attack = (1..ATTACK).map(|_| self.payment_with(token)).collect();
        self.payment_with(token)
    }

    fn payment_with(&mut self, token: &str) -> Request {
        post("/v1/payments", json!({"amount": self.amount(), "currency": "USD", "paymentToken": token}))
    }
}

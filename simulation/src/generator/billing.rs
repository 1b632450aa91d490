//! Requests for invoices, subscriptions and recurring invoices, and the clock that makes them due.

use serde_json::{Value, json};

use super::Generator;
use crate::history::{Request, ZONES, delete, post};

impl Generator {
    pub(super) fn plan(&mut self) -> Request {
        let (interval, count) = *self.pick(&[("day", 3), ("week", 1), ("month", 1), ("month", 1), ("month", 2)]);
        let mut body = json!({"name": "Gold", "amount": self.amount(), "currency": "USD", "interval": interval});
        if count > 1 {
            body["intervalCount"] = count.into();
        }
        self.creating("plan", "/v1/plans", body)
    }

    pub(super) fn invoice(&mut self) -> Request {
        let mut body = json!({"customerId": self.reference("customer"), "currency": "usd"});
        if self.random.one_in(3) {
            body["amount"] = self.amount().into();
        } else {
            body["items"] = json!([
                {"description": "Hours", "quantity": 1 + self.random.below(3), "unitAmount": self.amount()},
                {"description": "Travel", "quantity": 1, "unitAmount": self.random.below(50)},
            ]);
            if self.random.one_in(2) {
                body["amountTax"] = self.random.below(300).into();
                body["amountDiscount"] = self.random.below(300).into();
            }
        }
        match self.random.below(4) {
            0 => body["paymentTerms"] = (*self.pick(&["net_7", "net_15", "net_30", "net_60"])).into(),
            1 => body["dueAt"] = "2026-02-28T12:00:00+02:00".into(),
            _ => {}
        }
        self.creating("invoice", "/v1/invoices", body)
    }

    /// Something that concerns the collection of an invoice.
    pub(super) fn collect(&mut self) -> Request {
        match self.random.below(12) {
            0..7 => self.schedule(),
            7 | 8 => self.on_invoice("cancel_schedule", json!({})),
            9 | 10 => self.on_invoice("void", json!({})),
            _ => post("/v1/invoices/scheduler/run", json!({})),
        }
    }

    fn schedule(&mut self) -> Request {
        // From a second after the beginning of the history; most are in the past when the request arrives.
        let mut at = format!("2026-01-30T22:{:02}:{:02}Z", self.random.below(2), self.random.below(60));
        let invoice = self.reference("invoice");
        if self.random.one_in(3) {
            at = "2026-02-02T12:00:00+01:00".to_owned();
            if self.random.one_in(2) {
                self.follow_up = Some(post(format!("/v1/invoices/{invoice}/cancel_schedule"), json!({})));
            }
        }
        let mut body = json!({"collectAt": at});
        if self.random.one_in(3) {
            body["paymentMethodId"] = self.named_card().into();
        }
        post(format!("/v1/invoices/{invoice}/schedule"), body)
    }

    /// A card to collect with. Some of them are detached soon after.
    fn named_card(&mut self) -> String {
        let card = self.reference("card");
        if self.random.one_in(3) {
            self.follow_up = Some(delete(format!("/v1/payment_methods/{card}")));
        }
        card
    }

    fn on_invoice(&mut self, action: &str, body: Value) -> Request {
        post(format!("/v1/invoices/{}/{action}", self.reference("invoice")), body)
    }

    pub(super) fn subscription(&mut self) -> Request {
        let mut body = json!({"customerId": self.reference("customer"), "planId": self.reference("plan")});
        if self.random.one_in(2) {
            body["timezone"] = (*self.pick(&ZONES)).into();
        }
        match self.random.below(6) {
            0 | 1 => body["startAt"] = "2026-01-31".into(),
            2 => body["startAt"] = "2025-10-31".into(),
            3 => body["startAt"] = "2026-02-05".into(),
            _ => {}
        }
        if self.random.one_in(4) {
            body["paymentMethodId"] = self.named_card().into();
        }
        self.creating("subscription", "/v1/subscriptions", body)
    }

    pub(super) fn recurring_invoice(&mut self) -> Request {
        let cadence = match self.random.below(5) {
            0 => json!({"unit": "daily", "interval": 2 + self.random.below(3)}),
            1 => json!({"unit": "weekly"}),
            2 => json!({"unit": "monthly", "dayOfMonth": 28 + self.random.below(4)}),
            _ => json!({"unit": "monthly"}),
        };
        let template = json!({"currency": "USD", "paymentTerms": "net_7",
            "items": [{"description": "Rent", "quantity": 1, "unitAmount": self.amount()}]});
        let mut body = json!({"customerId": self.reference("customer"), "cadence": cadence, "template": template});
        let by_month = body["cadence"]["unit"] == "monthly";
        if by_month && body["cadence"].get("dayOfMonth").is_none() && self.random.one_in(2) {
            body["lastDayOfMonth"] = true.into();
        }
        match self.random.below(5) {
            0 => body["startDate"] = "2026-01-31".into(),
            1 => body["startDate"] = "2025-12-30".into(),
            2 => body["endDate"] = "2026-02-20".into(),
            _ => {}
        }
        if self.random.one_in(4) {
            body["mode"] = "draft_for_review".into();
        }
        self.creating("recurring", "/v1/recurring_invoices", body)
    }

    pub(super) fn recurring_change(&mut self) -> Request {
        let path = format!("/v1/recurring_invoices/{}", self.reference("recurring"));
        match self.random.below(8) {
            0..3 => {
                self.follow_up = self.random.one_in(2).then(|| post(format!("{path}/resume"), json!({})));
                post(path + "/pause", json!({}))
            }
            3..6 => post(path + "/resume", json!({})),
            6 => post(path + "/cancel", json!({})),
            _ => post(path, json!({"cadence": {"unit": "weekly", "interval": 2}, "lastDayOfMonth": false})),
        }
    }

    /// Forward by some days, or by a month; sometimes the same again.
    pub(super) fn advance(&mut self) -> Request {
        if self.advanced == 0 || !self.random.one_in(4) {
            let days = *self.pick(&[0, 1, 1, 3, 8, 31]);
            // At most two months and some days, so that the history stays short.
            self.advanced = (self.advanced + 24 * days + 1 + self.random.below(24)).min(24 * 70);
        }
        // Days of January and later, from its 30th at 22:00.
        let hours = 22 + self.advanced;
        let (mut day, mut month) = (30 + hours / 24, 1);
        for length in [31, 28, 31] {
            if day > length && month < 4 {
                (day, month) = (day - length, month + 1);
            } else {
                break;
            }
        }
        let to = format!("2026-{month:02}-{day:02}T{:02}:00:00Z", hours % 24);
        post("/v1/test_clock/advance", json!({"to": to}))
    }
}

//! Generates a history from a seed.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::history::{Fault, History, Request, SECOND, TimedFault, TimedRequest};
use crate::random::Random;
use crate::system::Role;
use crate::world::StatementFault;

/// The tokens of the mock provider: three approved ones for each declined one.
const TOKENS: [&str; 8] =
    ["tok_ok", "tok_ok", "tok_ok", "tok_ok", "tok_ok", "tok_partial", "tok_declined", "tok_insufficient"];
/// How many idempotency keys there are, so that some are repeated.
const KEYS: u64 = 16;

/// All requests and faults begin within this time.
const DURATION: u64 = 4 * SECOND;
const REQUESTS: usize = 50;
const FAULTS: usize = 10;
/// A paused worker loses what it has claimed.
const PAST_LEASE: u64 = 40 * SECOND;

/// The history of a seed.
pub fn generate(seed: u64) -> History {
    let mut random = Random::new(seed ^ 0x5EED);
    let mut times: Vec<u64> = (0..REQUESTS).map(|_| random.below(DURATION)).collect();
    times.sort_unstable();
    let mut generator = Generator::new(random.fork());
    let requests = times.into_iter().map(|at| TimedRequest { at, request: generator.request() }).collect();
    let mut faults: Vec<TimedFault> =
        (0..FAULTS).map(|_| TimedFault { at: random.below(DURATION), fault: fault(&mut random) }).collect();
    faults.sort_by_key(|fault| fault.at);
    let class = ['A', 'B', 'C'][random.index(3)];
    History { seed, class, requests, faults }
}

fn fault(random: &mut Random) -> Fault {
    let role = Role::ALL[random.index(Role::ALL.len())];
    let duration = [SECOND / 10, SECOND, 3 * SECOND, 12 * SECOND][random.index(4)];
    match random.below(11) {
        0 => Fault::Kill { role, restart: duration },
        1..5 => {
            let fault = StatementFault { skip: random.below(30), executed: !random.one_in(3), kills: random.one_in(2) };
            Fault::Statement { role, fault }
        }
        5 => Fault::Pause { role, duration: random.of(&[duration, PAST_LEASE]) },
        6 => Fault::Outage { redis: random.one_in(2), refused: random.one_in(2), duration },
        7 => Fault::LostResponses { count: 1 + random.below(3) as u32 },
        8 => Fault::Provider { latency_ms: Some([300, 3_000, 36_000][random.index(3)]), duration },
        9 => Fault::Provider { latency_ms: None, duration },
        _ => {
            let offset = [-3_600, -5, -1, 1, 5, 3_600][random.index(6)] * 1_000_000;
            Fault::WallClock { role, offset }
        }
    }
}

/// Generates requests that refer to objects of earlier ones.
struct Generator {
    random: Random,
    /// How many objects of each kind were created.
    created: BTreeMap<&'static str, u64>,
    /// The request of each idempotency key.
    of_key: BTreeMap<u64, Request>,
}

impl Generator {
    /// A generator whose requests `random` determines.
    fn new(random: Random) -> Self {
        Self { random, created: BTreeMap::new(), of_key: BTreeMap::new() }
    }

    /// The next request. The first ones create a customer, a card and a plan, because others refer to them.
    fn request(&mut self) -> Request {
        let start = ["customer", "card", "plan"].into_iter().find(|kind| !self.created.contains_key(kind));
        match start {
            Some("customer") => self.customer(),
            Some("card") => self.card("tok_ok"),
            Some(_) => self.plan(),
            None => self.any_request(),
        }
    }

    fn any_request(&mut self) -> Request {
        match self.random.below(32) {
            0..8 => self.payment_by_token(),
            8..11 => self.payment_by_card(),
            11 | 12 => self.change("capture"),
            13 | 14 => self.change("void"),
            15..18 => self.change("refund"),
            18 => self.customer(),
            19 => {
                let token = *self.pick(&TOKENS);
                self.card(token)
            }
            20..23 => self.invoice(),
            23..26 => self.schedule(),
            26 => self.on_invoice("void", json!({})),
            27..29 => self.subscription(),
            29 => {
                let path = format!("/subscriptions/{}/cancel", self.reference("subscription"));
                post(path, json!({}))
            }
            30 => get(format!("/payments/{}", self.reference("payment"))),
            _ => get(format!("/invoices/{}/attempts", self.reference("invoice"))),
        }
    }

    fn payment_by_token(&mut self) -> Request {
        let (token, capture) = (*self.pick(&TOKENS), !self.random.one_in(3));
        let body = json!({"amount": self.amount(), "currency": "USD", "paymentToken": token, "capture": capture});
        self.payment(body)
    }

    fn payment_by_card(&mut self) -> Request {
        let body = json!({"amount": self.amount(), "currency": "USD", "paymentMethodId": self.reference("card")});
        self.payment(body)
    }

    /// A payment, which may have a key, and then may be a repetition.
    fn payment(&mut self, body: Value) -> Request {
        let number = self.random.below(KEYS);
        if !self.random.one_in(2) {
            return self.creating("payment", "/payments", body);
        }
        if let Some(earlier) = self.of_key.get(&number) {
            return Request { creates: None, ..earlier.clone() };
        }
        let request = Request { key: Some(format!("order-{number}")), ..self.creating("payment", "/payments", body) };
        self.of_key.insert(number, request.clone());
        request
    }

    fn change(&mut self, action: &str) -> Request {
        let path = format!("/payments/{}/{action}", self.reference("payment"));
        let partial = action == "refund" || (action == "capture" && self.random.one_in(2));
        post(path, if partial { json!({"amount": 1 + self.random.below(2_000)}) } else { json!({}) })
    }

    fn customer(&mut self) -> Request {
        self.creating("customer", "/customers", json!({"email": "ada@example.com", "name": "Ada Lovelace"}))
    }

    fn card(&mut self, token: &str) -> Request {
        let body = json!({"customerId": self.reference("customer"), "paymentToken": token});
        self.creating("card", "/payment_methods", body)
    }

    fn plan(&mut self) -> Request {
        let interval = *self.pick(&["day", "week", "month"]);
        let body = json!({"name": "Gold", "amount": self.amount(), "currency": "USD", "interval": interval});
        self.creating("plan", "/plans", body)
    }

    fn invoice(&mut self) -> Request {
        let item = json!({"description": "Hours", "quantity": 1 + self.random.below(3), "unitAmount": self.amount()});
        let body = json!({"customerId": self.reference("customer"), "currency": "USD", "items": [item]});
        self.creating("invoice", "/invoices", body)
    }

    fn schedule(&mut self) -> Request {
        // From a second after the beginning of the history; most are in the past when the request arrives.
        let at = format!("2026-01-30T22:{:02}:{:02}Z", self.random.below(2), self.random.below(60));
        self.on_invoice("schedule", json!({"collectAt": at}))
    }

    fn on_invoice(&mut self, action: &str, body: Value) -> Request {
        post(format!("/invoices/{}/{action}", self.reference("invoice")), body)
    }

    fn subscription(&mut self) -> Request {
        let body = json!({"customerId": self.reference("customer"), "planId": self.reference("plan")});
        self.creating("subscription", "/subscriptions", body)
    }

    fn creating(&mut self, kind: &'static str, path: &str, body: Value) -> Request {
        *self.created.entry(kind).or_default() += 1;
        Request { creates: Some(kind.to_owned()), ..post(path.to_owned(), body) }
    }

    /// A placeholder for an object of this kind; for the first one, if there is none yet.
    fn reference(&mut self, kind: &str) -> String {
        let count = self.created.get(kind).copied().unwrap_or(0).max(1);
        format!("{{{kind}.{}}}", self.random.below(count))
    }

    fn amount(&mut self) -> u64 {
        100 + self.random.below(9_900)
    }

    fn pick<'a, T>(&mut self, values: &'a [T]) -> &'a T {
        &values[self.random.index(values.len())]
    }
}

fn post(path: String, body: Value) -> Request {
    Request { body: Some(body), path, key: None, creates: None }
}

fn get(path: String) -> Request {
    Request { body: None, path, key: None, creates: None }
}

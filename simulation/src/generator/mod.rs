//! Generates a history from a seed.

mod batches;
mod billing;
mod challenges;
mod disputes;
mod hostile;
mod money;
mod renewals;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::history::{
    Content, Fault, History, Provider, Request, SECOND, TimedFault, TimedRequest, delete, get, post, roles,
};
use crate::random::Random;
use crate::system::Role;
use crate::world::StatementFault;

/// The tokens of the mock provider: three approved ones for each declined one.
const TOKENS: [&str; 8] =
    ["tok_ok", "tok_ok", "tok_ok", "tok_ok", "tok_ok", "tok_partial", "tok_declined", "tok_insufficient"];

/// The tokens of saved cards. Half of them are declined or approved in part, so that collections fail.
const SAVED_TOKENS: [&str; 6] = ["tok_ok", "tok_ok", "tok_ok", "tok_declined", "tok_insufficient", "tok_partial"];

const PROVIDERS: [Provider; 3] = [Provider::Mock, Provider::CardGateway, Provider::Stripe];

/// All requests and faults begin within this time.
const DURATION: u64 = 5 * SECOND;
const REQUESTS: usize = 50;
const FAULTS: usize = 10;
/// A paused worker loses what it has claimed.
const PAST_LEASE: u64 = 40 * SECOND;
/// Stripe forgets an idempotency key after a day.
const FORGOTTEN: u64 = 25 * 3_600 * SECOND;
/// The random numbers of the rotation of keys.
const ROTATION_STREAM: u64 = 8;
/// How many of the equal requests of a burst are sent in the same moment.
const BURST: usize = 3;

/// The history of a seed.
pub fn generate(seed: u64) -> History {
    let mut random = Random::new(seed ^ 0x5EED);
    let mut times: Vec<u64> = (0..REQUESTS).map(|_| random.below(DURATION)).collect();
    times.sort_unstable();
    let mut generator = Generator::new(random.fork());
    let (class, operators) = (random.of(&['A', 'B', 'C']), random.one_in(2));
    let provider = random.of(&PROVIDERS);
    // Nothing happens but what clients and payers send.
    let is_calm = random.one_in(8);
    generator.has_hostile_payers = is_calm || random.one_in(3);
    let mut requests: Vec<TimedRequest> = Vec::new();
    for at in times {
        if requests.len() >= REQUESTS {
            break;
        }
        let request = generator.request();
        // Cardholders submit forms repeatedly.
        let is_form = matches!(request.content, Content::Form(_));
        let copies = if generator.random.one_in(if is_form { 3 } else { 10 }) { BURST - 1 } else { 0 };
        let copy = TimedRequest { at, request: Request { creates: None, ..request.clone() } };
        // A payer who is told that nothing was charged tries again.
        if is_form && generator.random.one_in(2) {
            let later = SECOND / 2 + generator.random.below(2 * SECOND);
            requests.push(TimedRequest { at: at + later, request: request.clone() });
        }
        // At other providers than the mock payments take longer: most could not be refunded yet.
        if provider != Provider::Mock && request.creates.as_deref() == Some("payment") && generator.random.one_in(2) {
            let later = 3 * SECOND / 2 + generator.random.below(3 * SECOND);
            requests.push(TimedRequest { at: at + later, request: generator.refund_of_latest() });
        }
        requests.push(TimedRequest { at, request });
        requests.extend(std::iter::repeat_n(copy, copies));
        requests.extend((at + 1..).zip(generator.attack.drain(..)).map(|(at, request)| TimedRequest { at, request }));
    }
    requests.sort_by_key(|timed| timed.at);
    // Every third account moves to another provider while payments are made, every ninth twice.
    let mut moves = Vec::new();
    while !is_calm && random.one_in(3) && moves.len() < 2 {
        moves.push(Fault::Move { to: random.of(&PROVIDERS) });
    }
    let uses = |one| provider == one || moves.iter().any(|step| matches!(step, Fault::Move { to } if *to == one));
    let [uses_mock, uses_gateway, uses_stripe] = PROVIDERS.map(uses);
    let faults = (0..if is_calm { 0 } else { FAULTS }).map(|_| fault(&mut random, uses_gateway)).collect::<Vec<_>>();
    let mut faults: Vec<TimedFault> =
        faults.into_iter().chain(moves).map(|fault| TimedFault { at: random.below(DURATION), fault }).collect();
    // Stripe is away until it has forgotten the requests whose responses were lost. The gateway takes timers that fire
    // late for a suspended machine, and a test clock that is ahead puts off for days what fails meanwhile.
    let forgets = !is_calm && uses_stripe && !uses_gateway && random.one_in(4);
    if forgets {
        let at = random.below(DURATION);
        faults.push(TimedFault { at, fault: Fault::LostResponses { count: 1 + random.below(3) } });
        let outage = Fault::Provider { latency_ms: None, duration: FORGOTTEN };
        faults.push(TimedFault { at: at + random.below(SECOND), fault: outage });
        requests.retain(|timed| timed.request.path != "/v1/test_clock/advance");
    } else {
        requests.extend(more_requests(seed, [uses_mock, uses_gateway, uses_stripe]));
        if !is_calm {
            let (payments, lost) = batches::steps(seed);
            requests.extend(payments);
            faults.extend(lost);
            faults.extend(rotation(seed));
        }
        requests.sort_by_key(|timed| timed.at);
    }
    faults.sort_by_key(|fault| fault.at);
    History { seed, class, provider, operators, requests, faults }
}

/// Those with random numbers of their own.
fn more_requests(seed: u64, [uses_mock, uses_gateway, uses_stripe]: [bool; 3]) -> Vec<TimedRequest> {
    // Stripe saves a card twice if it has forgotten the first request.
    let mut requests = journeys(seed, renewals::STREAM, renewals::subscriber);
    // The card gateway reports no disputes.
    if uses_mock || uses_stripe {
        requests.extend(disputes::requests(seed));
        requests.extend(journeys(seed, disputes::PAGE_STREAM, disputes::page));
    }
    if uses_stripe {
        requests.extend(journeys(seed, challenges::STREAM, challenges::payment));
    }
    if uses_stripe || uses_gateway {
        requests.extend(journeys(seed, challenges::PAGE_STREAM, challenges::cardholder));
    }
    requests
}

/// One or two journeys of a kind; none in two of three histories.
fn journeys(seed: u64, stream: u64, journey: fn(u64, &mut Random, &mut Vec<TimedRequest>)) -> Vec<TimedRequest> {
    let mut random = Random::stream(seed, stream);
    let mut requests = Vec::new();
    if random.one_in(3) {
        for number in 0..=random.below(2) {
            journey(number, &mut random, &mut requests);
        }
    }
    requests
}

/// In every fourth history.
fn rotation(seed: u64) -> Option<TimedFault> {
    let mut random = Random::stream(seed, ROTATION_STREAM);
    random.one_in(4).then(|| TimedFault { at: random.below(DURATION), fault: Fault::Rotation })
}

fn fault(random: &mut Random, uses_gateway: bool) -> Fault {
    let role = if uses_gateway && random.one_in(3) { Role::Gateway } else { random.of(roles(uses_gateway)) };
    let duration = random.of(&[SECOND / 10, SECOND / 2, 2 * SECOND, 6 * SECOND]);
    match random.below(if uses_gateway { 12 } else { 11 }) {
        0 => Fault::Kill { role, restart: duration },
        1..5 => {
            let fault = StatementFault { skip: random.below(30), executed: !random.one_in(3), kills: random.one_in(2) };
            Fault::Statement { role, fault }
        }
        5 => Fault::Pause { role, duration: random.of(&[duration, PAST_LEASE]) },
        6 => Fault::Outage { redis: random.one_in(2), refused: random.one_in(2), duration },
        7 => Fault::LostResponses { count: 1 + random.below(3) },
        8 => Fault::Provider { latency_ms: Some(random.of(&[300, 3_000, 36_000])), duration },
        9 => Fault::Provider { latency_ms: None, duration },
        11 => Fault::Fee { duration: random.of(&[duration, PAST_LEASE]) },
        _ => Fault::WallClock { role, offset: random.of(&[-3_600, -5, -1, 1, 5, 3_600]) * 1_000_000 },
    }
}

/// Generates requests that refer to objects of earlier ones.
struct Generator {
    random: Random,
    /// How many objects of each kind were created.
    created: BTreeMap<&'static str, u64>,
    /// A kind of object that a request refers to before there is one.
    missing: Option<String>,
    /// What follows soon after a request that makes it possible.
    follow_up: Option<Request>,
    /// The requests with a key.
    with_key: Vec<Request>,
    /// How many amounts were chosen. Each is different, so that it identifies its request.
    amounts: u64,
    /// The hours by which the test clock was advanced.
    advanced: u64,
    has_hostile_payers: bool,
    /// What a hostile payer sends immediately after a request.
    attack: Vec<Request>,
}

impl Generator {
    /// A generator whose requests `random` determines.
    fn new(random: Random) -> Self {
        Self {
            random,
            created: BTreeMap::new(),
            missing: None,
            follow_up: None,
            with_key: Vec::new(),
            amounts: 0,
            advanced: 0,
            has_hostile_payers: false,
            attack: Vec::new(),
        }
    }

    /// The next request. The first ones create a customer and a card. If a request refers to a kind of object of which
    /// there is none yet, it is one that creates it instead.
    fn request(&mut self) -> Request {
        if !self.created.contains_key("customer") {
            return self.customer();
        }
        if !self.created.contains_key("card") {
            return self.card();
        }
        if let Some(request) = self.follow_up.take() {
            return request;
        }
        let is_hostile = self.has_hostile_payers && self.random.one_in(5);
        let request = if is_hostile { self.hostile() } else { self.any_request() };
        let missing = self.missing.take();
        if missing.is_some() {
            self.follow_up = None;
        }
        match missing.as_deref() {
            None => request,
            Some("plan") => self.plan(),
            Some("invoice") => self.invoice(),
            Some("link") => self.link(),
            Some("subscription") => self.subscription(),
            Some("recurring") => self.recurring_invoice(),
            Some(kind) => self.payment_of(kind == "authorization"),
        }
    }

    fn any_request(&mut self) -> Request {
        match self.random.below(100) {
            0..16 => self.payment_by_token(),
            16..21 => self.payment_by_card(),
            21..28 => self.capture(),
            28..32 => self.void(),
            32..40 => self.refund(),
            40..45 => self.repetition(),
            45 | 46 => self.customer(),
            47 => self.customer_update(),
            48..54 => self.card(),
            54 => delete(format!("/v1/payment_methods/{}", self.reference("card"))),
            55 => post(format!("/v1/payment_methods/{}/default", self.reference("card")), json!({})),
            56..62 => self.invoice(),
            62..68 => self.collect(),
            68 | 69 => self.page("invoice"),
            70..73 => self.link(),
            73..79 => self.page("link"),
            79 => post(format!("/v1/payment_links/{}/cancel", self.reference("link")), json!({})),
            80 => self.plan(),
            81..84 => self.subscription(),
            84 => post(format!("/v1/subscriptions/{}/cancel", self.reference("subscription")), json!({})),
            85..88 => self.recurring_invoice(),
            88..91 => self.recurring_change(),
            91..95 => self.advance(),
            _ => self.reading(),
        }
    }

    fn customer(&mut self) -> Request {
        self.creating("customer", "/v1/customers", json!({"email": "ada@example.com", "name": "Ada Lovelace"}))
    }

    fn customer_update(&mut self) -> Request {
        let phone = format!("+44 20 {}", self.random.below(3));
        post(format!("/v1/customers/{}", self.reference("customer")), json!({"phone": phone}))
    }

    fn card(&mut self) -> Request {
        let token = *self.pick(&SAVED_TOKENS);
        let body = json!({"customerId": self.reference("customer"), "paymentToken": token});
        self.creating("card", "/v1/payment_methods", body)
    }

    /// A retrieval, or a list in pages of a size that some lists exceed.
    fn reading(&mut self) -> Request {
        let path = match self.random.below(10) {
            0..3 => format!("/v1/payments/{}", self.reference("payment")),
            3 => format!("/v1/payments/{}", self.reference("authorization")),
            4 => format!("/v1/invoices/{}", self.reference("invoice")),
            5 => format!("/v1/invoices/{}/attempts", self.reference("invoice")),
            6 => format!("/v1/payments?limit=3&startingAfter={}", self.reference("payment")),
            7 => format!("/v1/payment_methods?customerId={}&limit=2", self.reference("customer")),
            8 => format!("{{link.{}.url}}", self.number("link")),
            _ => (*self.pick(&["/v1/test_clock", "/v1/invoices?limit=4", "/v1/subscriptions"])).to_owned(),
        };
        get(path)
    }

    /// An earlier request with a key: the same again, or another body with the same key.
    fn repetition(&mut self) -> Request {
        if self.with_key.is_empty() {
            return self.payment_by_token();
        }
        let index = self.random.index(self.with_key.len());
        let mut request = Request { creates: None, ..self.with_key[index].clone() };
        if self.random.one_in(3)
            && let Content::Json(body) = &mut request.content
        {
            if body.get("amount").is_some() {
                body["amount"] = self.amount().into();
            } else if let Some(text) =
                ["name", "timezone", "paymentToken"].into_iter().find(|text| body.get(text).is_some())
            {
                body[text] = "tok_other".into();
            } else {
                body["customerId"] = self.reference("customer").into();
            }
        }
        request
    }

    /// Every second request that creates something has a key.
    fn creating(&mut self, kind: &'static str, path: &str, body: Value) -> Request {
        *self.created.entry(kind).or_default() += 1;
        let mut request = Request { creates: Some(kind.to_owned()), ..post(path, body) };
        if self.random.one_in(2) {
            request.key = Some(format!("order-{}", self.with_key.len()));
            self.with_key.push(request.clone());
        }
        request
    }

    /// A placeholder for an object of this kind, mostly one of the latest; for the first one, if there is none yet.
    fn reference(&mut self, kind: &str) -> String {
        format!("{{{kind}.{}}}", self.number(kind))
    }

    fn number(&mut self, kind: &str) -> u64 {
        let Some(count) = self.created.get(kind).copied() else {
            self.missing = Some(kind.to_owned());
            return 0;
        };
        if self.random.one_in(3) { self.random.below(count) } else { count - 1 - self.random.below(count.min(3)) }
    }

    fn amount(&mut self) -> u64 {
        self.amounts += 1;
        1_000 + 97 * self.amounts + self.random.below(97)
    }

    fn pick<'a, T>(&mut self, values: &'a [T]) -> &'a T {
        &values[self.random.index(values.len())]
    }
}

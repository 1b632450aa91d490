//! The evidence of a small history without violations.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::auditor::State;
use crate::check::{Anomaly, Books, Evidence, Line, PageCard, ProviderDispute, check};
use crate::client::{ReceivedResponse, Response};
use crate::history::{Fault, History, Provider, Request, TimedFault, TimedRequest, post};
use crate::receiver::Delivery;

const CREATED: &str = "2026-01-30T22:00:01.000Z";
/// The milliseconds of [`CREATED`].
const CREATED_MS: i64 = 1_769_810_401_000;
const SECRET: &str = "whsec_c2VjcmV0";

/// What [`Evidence`] borrows or contains.
pub(super) struct Fixture {
    pub(super) history: History,
    pub(super) responses: Vec<Option<Response>>,
    pub(super) state: State,
    pub(super) deliveries: Vec<Delivery>,
    pub(super) ledger: Vec<Line>,
    pub(super) books: Books,
}

/// The violations after a change of the evidence.
pub(super) fn violations(change: impl FnOnce(&mut Fixture)) -> Vec<String> {
    let mut fixture = fixture();
    change(&mut fixture);
    let Fixture { history, responses, state, deliveries, ledger, books } = fixture;
    let (history, responses) = (&history, responses.as_slice());
    check(&Evidence { history, responses, state, deliveries, secret: SECRET.to_owned(), ledger, books })
}

/// An id of the form that docs/api.md describes.
pub(super) fn id(prefix: &str, number: u32) -> String {
    format!("{prefix}_{number:026}")
}

/// An object with the fields of every object.
fn object(kind: &str, id: String, fields: Value) -> Value {
    let mut object = json!({"id": id, "object": kind, "livemode": false, "createdAt": CREATED});
    merge(&mut object, fields);
    object
}

fn merge(object: &mut Value, fields: Value) {
    if let (Value::Object(object), Value::Object(fields)) = (object, fields) {
        object.extend(fields);
    }
}

fn with(object: &Value, fields: Value) -> Value {
    let mut changed = object.clone();
    merge(&mut changed, fields);
    changed
}

impl Fixture {
    /// A request and its response, a millisecond after the one before it.
    pub(super) fn request(&mut self, request: Request, status: u16, json: Value) {
        let at = 1_000 * self.responses.len() as u64;
        let headers = [("request-id", "req_1"), ("cache-control", "no-store"), ("x-content-type-options", "nosniff")];
        let sent = (request.path.clone(), request.json().cloned().unwrap_or_default());
        self.responses.push(Some(Response::Received(ReceivedResponse {
            sent,
            status,
            headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            text: json.to_string(),
            json,
            sent_us: at,
            received_us: at + 500,
        })));
        self.history.requests.push(TimedRequest { at, request });
    }

    /// The response to a request.
    pub(super) fn response(&mut self, index: usize) -> &mut ReceivedResponse {
        match &mut self.responses[index] {
            Some(Response::Received(response)) => response,
            other => panic!("{other:?}"),
        }
    }

    /// Something that the API shows at the end.
    pub(super) fn shown(&mut self, prefix: &str, number: u32) -> &mut Value {
        self.state.objects.get_mut(&id(prefix, number)).expect("an object")
    }

    /// The events of this type.
    pub(super) fn events(&mut self, kind: &str) -> Vec<&mut Value> {
        self.books.events.iter_mut().filter(|event| event["type"] == kind).collect()
    }

    fn show(&mut self, object: Value) {
        self.state.objects.insert(object["id"].as_str().unwrap_or_default().to_owned(), object);
    }

    fn event(&mut self, kind: &str, refund: Option<String>, object: Value) {
        let id = id("evt", self.books.events.len() as u32);
        let mut event =
            json!({"id": id, "type": kind, "timestamp": CREATED, "livemode": false, "data": {"object": object}});
        if let Some(refund) = refund {
            event["data"]["refundId"] = refund.into();
        }
        let body = event.to_string();
        let mut mac = Hmac::<Sha256>::new_from_slice(b"secret").expect("any length is valid");
        mac.update(format!("{id}.1769810401.{body}").as_bytes());
        let signature = format!("v1,{}", BASE64.encode(mac.finalize().into_bytes()));
        self.deliveries.push(Delivery { id, timestamp: "1769810401".to_owned(), signature, body, acknowledged: true });
        self.books.events.push(event);
    }

    /// The charge of a payment.
    pub(super) fn charge(&mut self, payment: u32) -> &mut Line {
        let charge = format!("charge {payment}");
        self.ledger.iter_mut().find(|line| line.id == charge).expect("a charge")
    }

    /// Payment 8, to whose charge the provider added a fee, and which was voided.
    pub(super) fn mismatch(&mut self) {
        self.history.faults.push(TimedFault { at: 0, fault: Fault::Fee { duration: 1 } });
        let payment = json!({"status": "failed", "failureCode": "amount_mismatch", "failureMessage": "It is being reversed.",
            "settled": false, "capture": true, "currency": "USD", "amount": 8_000, "amountRequested": 8_000,
            "amountCaptured": 0, "amountRefunded": 0, "refunds": []});
        let failed = object("payment", id("pay", 8), payment);
        let create = post("/v1/payments", json!({"amount": 8_000, "paymentToken": "tok_ok"}));
        self.request(create, 201, failed.clone());
        self.event("payment.failed", None, failed.clone());
        self.show(with(&failed, json!({"failureMessage": "It was returned."})));
        self.line(8, "sale", 8_050).voided = true;
        self.line(8, "void", 8_050);
        let (payment, charge) = (id("pay", 8), "charge 8".to_owned());
        self.books.anomalies.push(Anomaly { payment, charge, is_mismatch: true, is_returned: true });
    }

    /// Payment 9, with which a payer has paid invoice 3 on its page and saved card 9 for renewals.
    pub(super) fn renewal(&mut self) {
        let saved = json!({"status": "active", "customerId": id("cus", 1), "last4": "4242", "isDefault": true});
        let saved = object("payment_method", id("pm", 9), saved);
        self.event("payment_method.created", None, saved.clone());
        self.show(saved);
        let payment = json!({"status": "settled", "settled": true, "capture": true, "currency": "USD", "amount": 700,
            "amountRequested": 700, "amountCaptured": 700, "amountRefunded": 0, "refunds": [],
            "customerId": id("cus", 1), "invoiceId": id("inv", 3)});
        let payment = object("payment", id("pay", 9), payment);
        let captured = with(&payment, json!({"status": "pending_settlement", "settled": false}));
        self.event("payment.captured", None, captured);
        self.event("payment.settled", None, payment.clone());
        self.show(payment);
        self.line(9, "sale", 700).settled = true;
        let paid = json!({"status": "paid", "paidAt": CREATED, "paymentId": id("pay", 9), "amountPaid": 700});
        let paid = with(self.shown("inv", 3), paid);
        self.event("invoice.paid", None, paid.clone());
        self.show(paid);
        let (card, payment, status) = (id("pm", 9), id("pay", 9), "active".to_owned());
        let reference = "op_9".to_owned();
        let (begun_us, accepted_us) = (0, Some(0));
        let page_card =
            PageCard { card, payment, reference, status, begun_us, accepted_us, stored: 1, charged_again: 0 };
        self.books.page_cards.push(page_card);
    }

    /// Payment 10, which was disputed at Stripe after it had settled, and whose dispute 1 was lost.
    pub(super) fn dispute(&mut self) {
        self.dispute_with(json!({}));
    }

    /// The same, and it has paid link 2.
    pub(super) fn dispute_of_link(&mut self) {
        self.dispute_with(json!({"paymentLinkId": id("plink", 2)}));
        let link = json!({"status": "paid", "amount": 9_000, "currency": "USD", "expiresAt": "2026-03-01T22:00:01.000Z",
            "paidAt": CREATED, "paymentId": id("pay", 10)});
        let link = object("payment_link", id("plink", 2), link);
        self.event("payment_link.paid", None, link.clone());
        self.show(link);
    }

    /// The same, and the payment has these fields.
    fn dispute_with(&mut self, fields: Value) {
        let payment = json!({"status": "pending_settlement", "settled": false, "capture": true, "currency": "USD",
            "amount": 9_000, "amountRequested": 9_000, "amountCaptured": 9_000, "amountRefunded": 0, "amountDisputed": 0,
            "refunds": [], "version": 2});
        let captured = with(&object("payment", id("pay", 10), payment), fields);
        let create = post("/v1/payments", json!({"amount": 9_000, "paymentToken": "tok_disputed"}));
        self.request(create, 201, captured.clone());
        let settled = with(&captured, json!({"status": "settled", "settled": true, "version": 3}));
        self.event("payment.captured", None, captured);
        self.event("payment.settled", None, settled.clone());
        self.show(with(&settled, json!({"amountDisputed": 9_000, "version": 4})));
        let line = self.line(10, "sale", 9_000);
        (line.settled, line.provider) = (true, Provider::Stripe);
        let opened = json!({"paymentId": id("pay", 10), "amount": 9_000, "currency": "USD", "reason": "fraudulent",
            "status": "needs_response", "version": 1});
        let opened = object("dispute", id("dp", 1), opened);
        let lost = with(&opened, json!({"status": "lost", "version": 2}));
        self.event("dispute.created", None, opened);
        self.event("dispute.closed", None, lost.clone());
        self.show(lost);
        self.books.disputes.push(ProviderDispute {
            id: "du_1".to_owned(),
            payment: Some(id("pay", 10)),
            amount: 9_000,
            currency: "USD".to_owned(),
            status: "lost".to_owned(),
            decided_ms: None,
            is_decided_twice: false,
            withdrawn: 9_000,
            ours: Some(id("dp", 1)),
        });
        let total = |count: u64, amount: i64| json!({"count": count, "amount": amount});
        self.state.settlements.push(json!({"object": "settlement", "day": "2026-01-30", "data": [{"currency": "USD",
            "payments": total(1, 9_000), "refunds": total(0, 0), "disputes": total(1, 9_000), "net": 0}]}));
    }

    /// Dispute 1 was won later.
    pub(super) fn win(&mut self) {
        let won = with(self.shown("dp", 1), json!({"status": "won", "version": 3}));
        self.event("dispute.closed", None, won.clone());
        self.show(won);
        let paid = with(self.shown("pay", 10), json!({"amountDisputed": 0, "version": 5}));
        self.show(paid);
        let theirs = &mut self.books.disputes[0];
        (theirs.status, theirs.is_decided_twice, theirs.withdrawn) = ("won".to_owned(), true, 0);
        let total = &mut self.state.settlements[0]["data"][0];
        (total["disputes"], total["net"]) = (json!({"count": 2, "amount": 0}), json!(9_000));
    }

    fn line(&mut self, payment: u32, kind: &str, amount: i64) -> &mut Line {
        let charge = format!("charge {payment}");
        let is_charge = ["sale", "authorize"].contains(&kind);
        self.ledger.push(Line {
            id: if is_charge { charge.clone() } else { format!("{kind} {payment}") },
            kind: kind.to_owned(),
            parent: (!is_charge).then(|| charge.clone()),
            payment: Some(id("pay", payment)),
            approved: true,
            amount,
            currency: "USD".to_owned(),
            occurred_ms: CREATED_MS,
            state: Some("succeeded".to_owned()),
            recorded: Some(if is_charge { charge } else { format!("{kind} {payment}") }),
            ..Line::default()
        });
        self.ledger.last_mut().expect("the line")
    }
}

fn fixture() -> Fixture {
    let mut fixture = Fixture {
        history: History {
            seed: 0,
            class: 'A',
            provider: Provider::Mock,
            operators: false,
            requests: Vec::new(),
            faults: Vec::new(),
        },
        responses: Vec::new(),
        state: State { now: "2026-03-05T00:00:00.000Z".to_owned(), ..State::default() },
        deliveries: Vec::new(),
        ledger: Vec::new(),
        books: Books::default(),
    };
    let customer = object("customer", id("cus", 1), json!({"email": "ada@example.com", "customFields": []}));
    fixture.event("customer.created", None, customer.clone());
    fixture.show(customer);
    payments(&mut fixture);
    invoices(&mut fixture);
    cycles(&mut fixture);
    fixture
}

/// 1: a sale, refunded in part. 2: an authorization, captured in part, by a request with a key. 3: voided. 4: declined.
fn payments(fixture: &mut Fixture) {
    let payment = |number, amount: i64, fields| {
        let common = json!({"status": "pending_settlement", "settled": false, "capture": true, "currency": "USD",
            "amount": amount, "amountRequested": amount, "amountCaptured": amount, "amountRefunded": 0, "refunds": []});
        with(&object("payment", id("pay", number), common), fields)
    };
    let sale = payment(1, 1_000, json!({}));
    let create = |amount: i64, token: &str| post("/v1/payments", json!({"amount": amount, "paymentToken": token}));
    fixture.request(create(1_000, "tok_ok"), 201, sale.clone());
    let refund =
        |status| object("refund", id("ref", 1), json!({"status": status, "amount": 300, "paymentId": id("pay", 1)}));
    fixture.request(post("/v1/payments/{payment.0}/refund", json!({"amount": 300})), 202, refund("pending"));
    let settled = with(&sale, json!({"status": "settled", "settled": true}));
    let refunded = with(
        &settled,
        json!({"status": "partially_refunded", "amountRefunded": 300, "refunds": [refund("succeeded")]}),
    );
    fixture.event("payment.captured", None, sale);
    fixture.event("payment.settled", None, settled);
    fixture.event("payment.refunded", Some(id("ref", 1)), refunded.clone());
    fixture.show(refunded);
    fixture.line(1, "sale", 1_000).settled = true;
    fixture.line(1, "refund", 300);

    let authorized = payment(2, 2_000, json!({"status": "authorized", "capture": false, "amountCaptured": 0}));
    let keyed = Request { key: Some("order-2".to_owned()), ..create(2_000, "tok_ok") };
    fixture.request(keyed.clone(), 201, authorized.clone());
    fixture.request(keyed, 201, authorized.clone());
    fixture.response(3).headers.insert("idempotent-replayed".to_owned(), "true".to_owned());
    let captured = with(&authorized, json!({"status": "pending_settlement", "amountCaptured": 500}));
    fixture.request(post("/v1/payments/{authorization.0}/capture", json!({"amount": 500})), 200, captured.clone());
    let settled = with(&captured, json!({"status": "settled", "settled": true}));
    fixture.event("payment.authorized", None, authorized);
    fixture.event("payment.captured", None, captured);
    fixture.event("payment.settled", None, settled.clone());
    fixture.show(settled);
    fixture.line(2, "authorize", 2_000).settled = true;
    fixture.line(2, "capture", 500);

    let authorized = payment(3, 3_000, json!({"status": "authorized", "capture": false, "amountCaptured": 0}));
    fixture.request(create(3_000, "tok_ok"), 201, authorized.clone());
    let cancelled = with(&authorized, json!({"status": "cancelled"}));
    fixture.request(post("/v1/payments/{authorization.1}/void", json!({})), 200, cancelled.clone());
    fixture.event("payment.authorized", None, authorized);
    fixture.event("payment.cancelled", None, cancelled.clone());
    fixture.show(cancelled);
    fixture.line(3, "authorize", 3_000).voided = true;
    fixture.line(3, "void", 3_000);

    let declined = json!({"status": "declined", "amountCaptured": 0, "declineCode": "declined", "declineType": "soft"});
    let declined = payment(4, 4_000, declined);
    fixture.request(create(4_000, "tok_declined"), 201, declined.clone());
    fixture.event("payment.declined", None, declined.clone());
    fixture.show(declined);
    let line = fixture.line(4, "sale", 4_000);
    (line.approved, line.decline_code) = (false, Some("declined".to_owned()));
}

fn invoice(number: u32, fields: Value) -> Value {
    let common = json!({"customerId": id("cus", 1), "status": "open", "number": format!("INV-{number:06}"), "currency": "USD",
        "amount": 5_000, "amountPaid": 0, "items": [], "paymentTerms": "due_on_receipt", "issuedAt": CREATED,
        "dueAt": CREATED, "url": "http://127.0.0.1:8080/pay/i/x"});
    with(&object("invoice", id("inv", number), common), fields)
}

/// Invoice 1 is paid at the second attempt, 2 is voided, and a link is paid.
fn invoices(fixture: &mut Fixture) {
    let next = "2026-01-31T22:00:01.000Z";
    let open = invoice(1, json!({}));
    let unpaid = with(&open, json!({"status": "scheduled", "collectAt": CREATED, "nextAttemptAt": next}));
    let paid = with(
        &open,
        json!({"status": "paid", "collectAt": CREATED, "paidAt": next, "paymentId": id("pay", 6), "amountPaid": 5_000}),
    );
    let schedule = post("/v1/invoices/{invoice.0}/schedule", json!({"collectAt": CREATED}));
    fixture.request(schedule, 200, with(&open, json!({"status": "scheduled", "collectAt": CREATED})));
    fixture.event("invoice.issued", None, open);
    fixture.event("invoice.payment_failed", None, unpaid);
    fixture.event("invoice.paid", None, paid.clone());
    fixture.show(paid);
    let attempt = |number: u32, fields| {
        let common =
            json!({"number": number, "amount": 5_000, "paymentId": id("pay", 4 + number), "attemptedAt": CREATED});
        with(&object("collection_attempt", id("att", number), common), fields)
    };
    let failed = json!({"status": "failed", "declineCode": "declined", "declineType": "soft", "nextAttemptAt": next});
    let attempts = vec![attempt(1, failed), attempt(2, json!({"status": "succeeded", "attemptedAt": next}))];
    fixture.state.attempts.insert(id("inv", 1), attempts);

    let voided = invoice(2, json!({"status": "voided", "voidedAt": CREATED}));
    fixture.request(post("/v1/invoices/{invoice.1}/void", json!({})), 200, voided.clone());
    fixture.event("invoice.issued", None, invoice(2, json!({})));
    fixture.event("invoice.voided", None, voided.clone());
    fixture.show(voided);

    let link = json!({"status": "paid", "amount": 5_000, "currency": "USD", "expiresAt": "2026-03-01T22:00:01.000Z",
        "paidAt": CREATED, "paymentId": id("pay", 7)});
    let link = object("payment_link", id("plink", 1), link);
    fixture.event("payment_link.paid", None, link.clone());
    fixture.show(link);

    for (number, approved, of) in [(5, false, "invoiceId"), (6, true, "invoiceId"), (7, true, "paymentLinkId")] {
        let payable = if of == "invoiceId" { id("inv", 1) } else { id("plink", 1) };
        let mut payment = object(
            "payment",
            id("pay", number),
            json!({"status": "settled", "settled": true, "capture": true, "currency": "USD", "amount": 5_000,
                "amountRequested": 5_000, "amountCaptured": 5_000, "amountRefunded": 0, "refunds": [],
                "customerId": id("cus", 1)}),
        );
        payment[of] = payable.into();
        let line = fixture.line(number, "sale", 5_000);
        if approved {
            line.settled = true;
            let captured = with(&payment, json!({"status": "pending_settlement", "settled": false}));
            fixture.event("payment.captured", None, captured);
            fixture.event("payment.settled", None, payment.clone());
        } else {
            (line.approved, line.decline_code) = (false, Some("declined".to_owned()));
            let declined = json!({"status": "declined", "settled": false, "amountCaptured": 0, "declineCode": "declined",
                "declineType": "soft"});
            merge(&mut payment, declined);
            fixture.event("payment.declined", None, payment.clone());
        }
        fixture.show(payment);
    }
}

/// A subscription and a recurring invoice, each with two cycles: invoices 3 to 6.
fn cycles(fixture: &mut Fixture) {
    let plan = json!({"name": "Gold", "amount": 700, "currency": "USD", "interval": "month", "intervalCount": 1});
    fixture.show(object("plan", id("plan", 1), plan));
    let subscription = json!({"status": "active", "customerId": id("cus", 1), "planId": id("plan", 1), "startAt": "2026-01-31",
        "timezone": "America/New_York", "currentPeriodStart": "2026-02-28T05:00:00.000Z",
        "currentPeriodEnd": "2026-03-31T04:00:00.000Z", "nextBillingAt": "2026-03-31T04:00:00.000Z"});
    let subscription = object("subscription", id("sub", 1), subscription);
    fixture.event("subscription.created", None, subscription.clone());
    fixture.event("subscription.renewed", None, subscription.clone());
    fixture.show(subscription);
    let template = json!({"currency": "USD", "paymentTerms": "net_7",
        "items": [{"description": "Rent", "quantity": 2, "unitAmount": 350}]});
    let recurring = json!({"status": "active", "customerId": id("cus", 1), "cadence": {"unit": "monthly", "interval": 1, "dayOfMonth": 31},
        "lastDayOfMonth": false, "startDate": "2026-01-30", "mode": "auto_send", "template": template,
        "nextInvoiceDate": "2026-03-31", "occurrenceCount": 2});
    fixture.show(object("recurring_invoice", id("rinv", 1), recurring));
    let periods = ["2026-01-31/2026-02-27", "2026-02-28/2026-03-30"];
    let begins = [("2026-01-31", "2026-02-07"), ("2026-02-28", "2026-03-07")];
    for (number, period, (begin, due)) in (0..).zip(periods).zip(begins).map(|((n, period), days)| (n, period, days)) {
        let issued = format!("{begin}T05:00:00.000Z");
        let common = json!({"amount": 700, "billingPeriod": period, "issuedAt": issued, "dueAt": issued});
        let of_plan = json!({"subscriptionId": id("sub", 1), "description": "Gold", "status": "scheduled", "collectAt": issued,
            "items": [{"description": "Gold", "quantity": 1, "unitAmount": 700}]});
        let of_template = json!({"recurringInvoiceId": id("rinv", 1), "paymentTerms": "net_7",
            "items": [{"description": "Rent", "quantity": 2, "unitAmount": 350}], "dueAt": format!("{due}T05:00:00.000Z")});
        for (offset, fields) in [(3, of_plan), (5, of_template)] {
            let invoice = with(&invoice(offset + number, common.clone()), fields);
            fixture.event("invoice.issued", None, invoice.clone());
            fixture.show(invoice);
        }
    }
}

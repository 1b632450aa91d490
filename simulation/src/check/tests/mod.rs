//! Each check reports a change of the evidence that it is for.

mod challenges;
mod disputes;
mod fixture;
mod renewals;

use serde_json::{Value, json};

use self::fixture::{Fixture, id, violations};
use super::{Anomaly, GivenUp, Line, Sent};
use crate::client::Response;
use crate::history::{Provider, delete, get, post};

/// Fails unless one of the violations after the change contains the text.
fn reports(text: &str, change: impl FnOnce(&mut Fixture)) {
    let violations = violations(change);
    assert!(violations.iter().any(|violation| violation.contains(text)), "no violation {text:?} in {violations:#?}");
}

/// The same for a change of an object at the end.
fn reports_shown(text: &str, (prefix, number): (&str, u32), field: &str, value: Value) {
    reports(text, |fixture| fixture.shown(prefix, number)[field] = value);
}

#[test]
fn the_evidence_of_a_faultless_history_has_no_violations() {
    assert_eq!(violations(|_| {}), [] as [&str; 0]);
}

#[test]
fn responses_have_documented_statuses_and_forms() {
    reports("returned 404", |fixture| fixture.response(1).status = 404);
    reports("returned 500", |fixture| fixture.response(1).status = 500);
    reports("a wrong cache-control", |fixture| drop(fixture.response(0).headers.remove("cache-control")));
    reports("no Request-Id", |fixture| drop(fixture.response(0).headers.remove("request-id")));
    reports("with null", |fixture| fixture.response(0).json["declineCode"] = Value::Null);
    reports("no type", |fixture| drop(fixture.response(0).json.as_object_mut().and_then(|json| json.remove("object"))));
    reports("no id or livemode", |fixture| fixture.response(0).json["livemode"] = true.into());
    let error = |change: fn(&mut Value)| {
        move |fixture: &mut Fixture| {
            let url = "https://pay.example/docs#error-conflict";
            let mut json = json!({"code": "conflict", "message": "No.", "requestId": "req_1", "docUrl": url});
            change(&mut json);
            fixture.request(post("/v1/payments/{payment.0}/void", json!({})), 409, json!({"error": json}));
        }
    };
    assert_eq!(violations(error(|_| {})), [] as [&str; 0]);
    reports("a wrong code", error(|error| error["code"] = "other".into()));
    reports("no message", error(|error| error["message"] = "".into()));
    reports("another requestId", error(|error| error["requestId"] = "req_2".into()));
    reports("a wrong docUrl", error(|error| error["docUrl"] = "#".into()));
    reports("a wrong param", error(|error| error["param"] = "amount".into()));
    reports("a wrong sum", |fixture| {
        let result = json!({"claimed": 3, "collected": 1, "released": 1});
        fixture.request(post("/v1/invoices/scheduler/run", json!({})), 200, result);
    });
    reports("a wrong cursor", |fixture| {
        fixture.request(get("/v1/payments"), 200, json!({"object": "list", "data": [], "hasMore": true}));
    });
}

#[test]
fn objects_are_consistent() {
    reports("a wrong id", |fixture| fixture.response(0).json["id"] = "pay_1".into());
    reports_shown("a wrong time", ("pay", 1), "createdAt", "2026-01-30T22:00:01Z".into());
    reports_shown("a wrong livemode", ("pay", 1), "livemode", true.into());
    reports_shown("amounts that contradict each other", ("pay", 1), "amountRefunded", 1.into());
    reports_shown("amounts that contradict its status", ("pay", 1), "status", "settled".into());
    reports_shown("a wrong decline", ("pay", 4), "declineType", "hard".into());
    reports_shown("a wrong nextAction", ("pay", 1), "nextAction", json!({"url": "http://127.0.0.1:8080/pay/a/x"}));
    reports_shown("no card", ("pay", 1), "paymentMethodId", "pm_1".into());
    reports("no failureCode", |fixture| {
        let payment = fixture.shown("pay", 4).as_object_mut().expect("an object");
        payment.retain(|field, _| !field.starts_with("decline"));
        payment.insert("status".to_owned(), "failed".into());
    });
    reports_shown("a wrong total", ("inv", 3), "amount", 1.into());
    reports_shown("fields that contradict its status", ("inv", 1), "status", "open".into());
    reports_shown("fields that contradict its status", ("sub", 1), "cancelledAt", "2026-01-30T22:00:01.000Z".into());
    reports("has 2 default cards", |fixture| {
        for number in [1, 2] {
            let card = json!({"id": id("pm", number), "object": "payment_method", "customerId": id("cus", 1), "isDefault": true});
            fixture.state.objects.insert(id("pm", number), card);
        }
    });
    reports_shown("a wrong dueAt", ("inv", 5), "dueAt", "2026-02-08T05:00:00.000Z".into());
}

#[test]
fn what_was_created_exists_as_requested() {
    reports("does not exist", |fixture| drop(fixture.state.objects.remove(&id("pay", 4))));
    reports("does not exist", |fixture| fixture.shown("pay", 1)["refunds"] = json!([]));
    reports_shown("currency of", ("pay", 1), "currency", "EUR".into());
    reports("another amount", |fixture| fixture.response(0).sent.1["amount"] = 999.into());
    reports("another description", |fixture| fixture.response(0).sent.1["description"] = "A".into());
    reports("with tok_insufficient became", |fixture| {
        fixture.response(7).sent.1["paymentToken"] = "tok_insufficient".into();
    });
    reports("with tok_challenged became", |fixture| {
        fixture.response(7).sent.1["paymentToken"] = "tok_challenged".into();
    });
    reports("a list shows", |fixture| fixture.state.differing.push((json!({}), json!({"id": "pay_1"}))));
    reports("is on two pages", |fixture| fixture.state.repeated = ["/v1/payments".to_owned()].into());
    reports("cannot be read", |fixture| fixture.state.failed.push("/v1/payments".to_owned()));
}

#[test]
fn a_key_has_one_response() {
    reports("created", |fixture| fixture.response(3).json["id"] = id("pay", 1).into());
    reports("and 201", |fixture| fixture.response(3).text.push(' '));
    reports("responses that are not replays", |fixture| fixture.response(3).headers.clear());
    reports("accepted with two bodies", |fixture| fixture.response(3).sent.1["amount"] = 1.into());
    reports("succeeded and later returned", |fixture| fixture.response(3).status = 404);
    reports("was replayed", |fixture| {
        fixture.response(0).headers.insert("idempotent-replayed".to_owned(), "true".to_owned());
    });
    reports("refunds without an externalId are all", |fixture| {
        let refund = fixture.response(1).json.clone();
        fixture.request(post("/v1/payments/{payment.0}/refund", json!({"amount": 300})), 202, refund);
    });
    reports("payments of 1000 for 0 requests", |fixture| fixture.response(0).status = 500);
}

#[test]
fn an_external_id_stands_for_one_refund() {
    reports("returned", |fixture| {
        for number in [1, 2] {
            let mut refund = fixture.response(1).json.clone();
            refund["id"] = id("ref", number).into();
            let body = json!({"amount": 300, "externalId": "return-1"});
            fixture.request(post("/v1/payments/{payment.0}/refund", body), 202, refund);
        }
        fixture.response(1).status = 409;
    });
}

#[test]
fn payments_agree_with_the_ledger() {
    let line = |change: fn(&mut Fixture)| change;
    let cases = [
        ("belongs to no payment", line(|fixture| fixture.ledger[0].payment = None)),
        ("another number of approved charges", line(|fixture| fixture.ledger.push(fixture.ledger[0].clone()))),
        ("another number of approved charges", line(|fixture| drop(fixture.ledger.remove(0)))),
        ("has another currency", line(|fixture| fixture.ledger[0].currency = "EUR".to_owned())),
        ("declined for another reason", line(|fixture| fixture.shown("pay", 4)["declineCode"] = "other".into())),
        ("captured although not requested", line(|fixture| fixture.ledger[2].kind = "sale".to_owned())),
        ("another amount than authorized", line(|fixture| fixture.ledger[2].amount = 2_001)),
        ("another amount than captured", line(|fixture| fixture.ledger[3].amount = 501)),
        ("is cancelled or voided", line(|fixture| fixture.ledger[0].voided = true)),
        ("is settled only", line(|fixture| fixture.ledger[0].settled = false)),
        ("is expired only", line(|fixture| fixture.ledger[0].expired = true)),
        ("another amount than refunded", line(|fixture| fixture.ledger[1].amount = 301)),
        ("shows other refunds", line(|fixture| fixture.ledger.push(fixture.ledger[1].clone()))),
        ("exceeds what was authorized", line(|fixture| fixture.ledger[1].amount = 1_001)),
        ("was captured twice", line(|fixture| fixture.ledger.push(fixture.ledger[3].clone()))),
        ("ended early", line(|fixture| fixture.state.now = "2026-01-30T22:00:00.500Z".to_owned())),
        ("differences from the provider", line(|fixture| fixture.books.differences = 1)),
        ("from its acquirer", line(|fixture| fixture.books.acquirer_differences = 1)),
        ("share an account at a provider", line(|fixture| fixture.books.shared_accounts = 1)),
        ("is no charge of a wrong amount", line(|fixture| fixture.books.anomalies.push(Anomaly::default()))),
    ];
    for (text, change) in cases {
        reports(text, change);
    }
    reports("returned", |fixture| fixture.shown("pay", 2)["amountCaptured"] = 400.into());
    reports_shown("and is", ("pay", 3), "status", "authorized".into());
}

#[test]
fn states_only_move_forward() {
    reports("later", |fixture| {
        let mut earlier = fixture.response(0).json.clone();
        earlier["status"] = "processing".into();
        fixture.request(get("/v1/payments/{payment.0}"), 200, earlier);
    });
    let clock = |to: &'static str, now: &'static str| {
        let request = post("/v1/test_clock/advance", json!({"to": to}));
        move |fixture: &mut Fixture| fixture.request(request, 200, json!({"object": "test_clock", "now": now}))
    };
    let (first, second) = ("2026-02-01T00:00:00Z", "2026-02-01T00:00:00.000Z");
    assert_eq!(violations(clock(first, second)), [] as [&str; 0]);
    reports("not reached its target", clock("2026-02-02T00:00:00Z", second));
    reports("the test clock went back: ", |fixture| {
        clock("2026-02-02T00:00:00Z", "2026-02-02T00:00:00.000Z")(fixture);
        clock(first, second)(fixture);
    });
    reports("the test clock went back to", clock(first, "2027-02-01T00:00:00.000Z"));
    reports("is no longer settled", |fixture| {
        fixture.response(0).json["settled"] = true.into();
        fixture.shown("pay", 1)["settled"] = false.into();
    });
    reports("time is not known", |fixture| fixture.state.now.clear());
    reports_shown("was cancelled and is authorized later", ("pay", 3), "status", "authorized".into());
    reports_shown("amountCaptured", ("pay", 1), "amountCaptured", 900.into());
}

#[test]
fn events_agree_with_their_objects() {
    reports("contradicts its type", |fixture| fixture.events("payment.declined")[0]["type"] = "payment.failed".into());
    reports("events payment.captured instead of", |fixture| {
        let event = fixture.events("payment.captured")[0].clone();
        fixture.books.events.push(event);
    });
    reports("events invoice.issued instead of 1", |fixture| {
        fixture.books.events.retain(|event| event["type"] != "invoice.issued");
    });
    reports("events subscription.renewed instead of 1", |fixture| {
        fixture.books.events.retain(|event| event["type"] != "subscription.renewed");
    });
    reports("has events and does not exist", |fixture| drop(fixture.state.objects.remove(&id("plink", 1))));
    reports("the last event", |fixture| {
        fixture.events("payment_link.paid")[0]["data"]["object"]["amount"] = 1.into();
    });
    reports("events contradict each other", |fixture| {
        fixture.events("payment.authorized")[1]["data"]["object"]["status"] = "expired".into();
    });
    reports("earlier than the one before", |fixture| {
        fixture.events("payment.settled")[0]["timestamp"] = "2026-01-30T22:00:00.000Z".into();
    });
}

#[test]
fn events_arrive_signed() {
    reports("a wrong signature", |fixture| fixture.deliveries[0].timestamp = "1".to_owned());
    reports("deliveries of", |fixture| {
        let mut delivery = fixture.deliveries[0].clone();
        delivery.body.push(' ');
        fixture.deliveries.push(delivery);
    });
    reports("differs from its event", |fixture| fixture.books.events[0]["livemode"] = true.into());
    reports("has not acknowledged", |fixture| fixture.deliveries[0].acknowledged = false);
}

#[test]
fn invoices_and_links_are_paid_once() {
    reports_shown("follows a gap", ("inv", 2), "number", "INV-000009".into());
    reports_shown("is not of", ("pay", 6), "amountRequested", 1.into());
    reports_shown("a partial authorization was kept", ("pay", 6), "amount", 2_500.into());
    reports_shown("has the payments", ("pay", 5), "status", "settled".into());
    reports_shown("has the payments", ("plink", 1), "paymentId", id("pay", 6).into());
    reports("was charged more than once", |fixture| {
        fixture.ledger.iter_mut().for_each(|line| line.approved = true);
    });
    reports_shown("and then", ("inv", 2), "status", "open".into());
    reports_shown("was paid after it expired", ("plink", 1), "expiresAt", "2026-01-30T21:00:00.000Z".into());
    reports("there is", |fixture| {
        fixture.shown("plink", 1)["status"] = "open".into();
        fixture.shown("plink", 1)["expiresAt"] = "2026-02-01T21:00:00.000Z".into();
    });
}

#[test]
fn collection_follows_the_retries() {
    let attempt = |number: usize, field: &'static str, value: Value| {
        move |fixture: &mut Fixture| {
            fixture.state.attempts.get_mut(&id("inv", 1)).expect("attempts")[number][field] = value;
        }
    };
    reports("a wrong number", attempt(1, "number", 3.into()));
    reports("a wrong amount", attempt(1, "amount", 3.into()));
    reports("before it was due", attempt(1, "attemptedAt", "2026-01-31T22:00:00.000Z".into()));
    reports("a retry on a wrong day", attempt(0, "nextAttemptAt", "2026-02-01T22:00:01.000Z".into()));
    reports("a payment of something else", attempt(0, "paymentId", id("pay", 4).into()));
    reports("declined and not failed", attempt(0, "status", "succeeded".into()));
    reports("not succeeded", attempt(1, "status", "failed".into()));
    reports("no payment", |fixture| {
        let attempts = fixture.state.attempts.get_mut(&id("inv", 1)).expect("attempts");
        attempts[0].as_object_mut().and_then(|attempt| attempt.remove("paymentId"));
    });
}

#[test]
fn each_cycle_is_billed_once_on_its_day() {
    for invoice in [4, 6] {
        let gap = "2026-03-01/2026-03-30".into();
        reports_shown("missing", ("inv", invoice), "billingPeriod", gap);
        reports("missing", |fixture| {
            let mut twice = fixture.shown("inv", invoice).clone();
            twice["id"] = id("inv", 7).into();
            fixture.state.objects.insert(id("inv", 7), twice);
        });
        reports_shown("issued early", ("inv", invoice), "issuedAt", "2026-02-27T04:00:00.000Z".into());
        reports_shown("differs from the", ("inv", invoice), "currency", "EUR".into());
        reports("a cycle was not billed", |fixture| fixture.state.now = "2026-03-31T05:00:00.000Z".to_owned());
    }
    reports_shown("a wrong current period", ("sub", 1), "currentPeriodEnd", "2026-03-31T05:00:00.000Z".into());
    reports_shown("a wrong nextBillingAt", ("sub", 1), "nextBillingAt", "2026-03-31T05:00:00.000Z".into());
    reports_shown("say otherwise", ("sub", 1), "status", "past_due".into());
    reports_shown("a wrong nextInvoiceDate", ("rinv", 1), "nextInvoiceDate", "2026-03-30".into());
    reports_shown("a wrong occurrenceCount", ("rinv", 1), "occurrenceCount", 3.into());
    reports_shown("an invoice after the end", ("rinv", 1), "endDate", "2026-02-01".into());
    reports_shown("completed too early", ("rinv", 1), "status", "completed".into());
    reports_shown("parked", ("rinv", 1), "status", "parked".into());
    reports_shown("a wrong mode", ("rinv", 1), "mode", "draft_for_review".into());
    reports_shown("has no plan", ("sub", 1), "planId", "plan_2".into());
}

#[test]
fn nothing_is_collected_after_a_cancellation() {
    let at = "2026-02-28T04:00:00.000Z";
    reports("after the cancellation was billed", |fixture| fixture.shown("sub", 1)["cancelledAt"] = at.into());
    reports("still in collection", |fixture| fixture.shown("sub", 1)["cancelledAt"] = at.into());
    reports("attempted after the cancellation", |fixture| {
        fixture.shown("sub", 1)["cancelledAt"] = at.into();
        let mut attempt = fixture.state.attempts[&id("inv", 1)][0].clone();
        attempt["attemptedAt"] = "2026-02-28T04:00:00.001Z".into();
        fixture.state.attempts.insert(id("inv", 4), vec![attempt]);
    });
}

#[test]
fn operators_notice_nothing() {
    reports("an operator noticed", |fixture| fixture.books.noticed.push("a difference".to_owned()));
    reports("neither recorded nor reported", |fixture| fixture.ledger[0].state = Some("failed".to_owned()));
    reports("neither recorded nor reported", |fixture| fixture.ledger[0].recorded = Some("another".to_owned()));
}

#[test]
fn work_is_given_up_only_by_the_provider_or_after_a_day() {
    let given_up = |tried_ms, is_refused| {
        let one = GivenUp { payment: id("pay", 1), kind: "refund".to_owned(), tried_ms, is_refused };
        violations(|fixture| fixture.books.given_up.push(one))
    };
    assert_eq!(given_up(86_400_000, false), [] as [&str; 0]);
    assert_eq!(given_up(1_000, true), [] as [&str; 0]);
    assert!(given_up(86_399_000, false)[0].contains("given up early"));
}

#[test]
fn nothing_is_sent_after_a_stop() {
    // Payment 6 collects invoice 1, and payment 7 is for the link.
    let is_reported = |path: &str, object: &str, late_us: i64, payment: u32| {
        let violations = violations(|fixture| {
            fixture.shown("pay", 6)["paymentMethodId"] = id("pm", 1).into();
            fixture.shown("inv", 1)["subscriptionId"] = id("sub", 1).into();
            let request = if path.starts_with("/v1/payment_methods/") { delete(path) } else { post(path, json!({})) };
            fixture.request(request, 200, json!({"id": object}));
            // The invoice was scheduled before.
            let at_us = fixture.responses.len() as i64 * 1_000 - 500 + late_us;
            fixture.books.sent.push(Sent { payment: id("pay", payment), at_us });
        });
        violations.iter().any(|violation| violation.contains("later a request was sent"))
    };
    for (path, object, payment) in [
        ("/v1/payment_methods/{card.0}", id("pm", 1), 6),
        ("/v1/invoices/{invoice.0}/void", id("inv", 1), 6),
        ("/v1/invoices/{invoice.0}/cancel_schedule", id("inv", 1), 6),
        ("/v1/subscriptions/{subscription.0}/cancel", id("sub", 1), 6),
        ("/v1/payment_links/{link.0}/cancel", id("plink", 1), 7),
    ] {
        assert!(is_reported(path, &object, 1, payment) && !is_reported(path, &object, 0, payment), "{path}");
        assert!(!is_reported(path, &object, 1, 1), "{path}");
    }
}

#[test]
fn no_charge_follows_one_that_stands() {
    let is_reported = |returned: Option<(&str, i64)>| {
        let violations = violations(|fixture| {
            fixture.books.sent.push(Sent { payment: id("pay", 6), at_us: 100 });
            let again = Line { id: "another".to_owned(), booked_us: 200, ..fixture.charge(6).clone() };
            if let Some((kind, booked_us)) = returned {
                let parent = Some("charge 6".to_owned());
                fixture.ledger.push(Line { kind: kind.to_owned(), parent, booked_us, ..again.clone() });
            }
            fixture.ledger.push(again);
        });
        violations.iter().any(|violation| violation.contains("charged again while a charge stood"))
    };
    assert!(is_reported(None));
    for kind in ["void", "refund"] {
        assert!(is_reported(Some((kind, 101))) && !is_reported(Some((kind, 99))), "{kind}");
    }
}

#[test]
fn collections_that_were_stopped_announce_nothing() {
    reports("events invoice.payment_failed instead of 0", |fixture| {
        fixture.state.attempts.get_mut(&id("inv", 1)).expect("attempts")[0]["declineCode"] = "withdrawn".into();
    });
}

#[test]
fn only_what_was_stopped_is_withdrawn() {
    let withdrawn = |fixture: &mut Fixture| {
        fixture.shown("pay", 5)["status"] = "failed".into();
        fixture.shown("pay", 5)["failureCode"] = "withdrawn".into();
        fixture.state.attempts.get_mut(&id("inv", 1)).expect("attempts")[0]["declineCode"] = "withdrawn".into();
    };
    let count = |change: &dyn Fn(&mut Fixture)| {
        let violations = violations(|fixture| {
            withdrawn(fixture);
            change(fixture);
        });
        violations.iter().filter(|violation| violation.starts_with("was withdrawn although")).count()
    };
    assert_eq!(count(&|_| {}), 2);
    assert_eq!(count(&|fixture| fixture.shown("inv", 1)["status"] = "voided".into()), 0);
    let cancel = |fixture: &mut Fixture| {
        fixture.shown("inv", 1)["subscriptionId"] = id("sub", 1).into();
        fixture.shown("sub", 1)["status"] = "cancelled".into();
    };
    assert_eq!(count(&cancel), 0);
    let stop = |status: u16, invoice: u32| {
        move |fixture: &mut Fixture| {
            let request = post("/v1/invoices/{invoice.0}/cancel_schedule", json!({}));
            fixture.request(request, status, json!({"id": id("inv", invoice)}));
        }
    };
    assert_eq!([count(&stop(200, 1)), count(&stop(200, 2)), count(&stop(409, 1))], [0, 2, 2]);
    let lost = |fixture: &mut Fixture| {
        stop(200, 1)(fixture);
        *fixture.responses.last_mut().expect("a response") = Some(Response::Lost);
    };
    assert_eq!(count(&lost), 0);
    // A detached card is no reason for an attempt.
    let detach = |fixture: &mut Fixture| {
        fixture.shown("pay", 5)["paymentMethodId"] = id("pm", 1).into();
        let object = json!({"id": id("pm", 1), "object": "payment_method"});
        fixture.books.events.push(json!({"type": "payment_method.detached", "data": {"object": object}}));
    };
    assert_eq!(count(&detach), 1);
}

#[test]
fn without_faults_everything_is_available() {
    reports("has no response although nothing failed", |fixture| fixture.responses[0] = Some(Response::Lost));
    reports("has no response although nothing failed", |fixture| fixture.response(0).status = 503);
    reports("failed although nothing else did", |fixture| {
        fixture.mismatch();
        fixture.history.faults.clear();
    });
}

#[test]
fn charges_of_a_wrong_amount_are_returned() {
    let returned = |fixture: &mut Fixture| fixture.mismatch();
    assert_eq!(violations(returned), [] as [&str; 0]);
    let changed = |change: fn(&mut Fixture)| {
        move |fixture: &mut Fixture| {
            fixture.mismatch();
            change(fixture);
        }
    };
    reports("is no charge of a wrong amount", changed(|fixture| fixture.history.faults.clear()));
    reports("is no charge of a wrong amount", changed(|fixture| fixture.books.anomalies[0].is_mismatch = false));
    reports("was not returned", changed(|fixture| fixture.books.anomalies[0].is_returned = false));
    reports("was not returned", changed(|fixture| fixture.charge(8).voided = false));
    reports("another number of approved charges", changed(|fixture| fixture.charge(8).voided = false));
    reports("0 charges of a wrong amount", changed(|fixture| fixture.books.anomalies.clear()));
}

#[test]
fn charges_settle_at_midnight_of_the_gateway() {
    let at = |now: &'static str| {
        move |fixture: &mut Fixture| {
            fixture.ledger.iter_mut().for_each(|line| line.provider = Provider::CardGateway);
            fixture.state.now = now.to_owned();
        }
    };
    let early = |now| violations(at(now)).iter().any(|violation| violation.contains("ended early"));
    assert!(early("2026-01-30T23:58:00.000Z") && !early("2026-01-31T00:00:00.000Z"));
}

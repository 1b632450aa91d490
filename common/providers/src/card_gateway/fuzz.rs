//! The adapter against a gateway that sends arbitrary responses. A response that cannot be parsed is an unknown
//! outcome, never a final one.

mod outcomes;

use crate::credentials::Stored as _;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use testkit::fuzz::{Bytes, check, json as mutated};

use super::wire::{Wire, is_id};
use super::{Credentials, follow_up, inquiry, sale, statement};
use crate::{Action, ChargeInquiry, DeclineCode, Found, ProviderError, ProviderResponse, Request, Source, Statement};
use foundation::crypto::Secret;
use foundation::id::ProviderAccountId;
use foundation::money::{MAX_AMOUNT, Money};
use foundation::time::Timestamp;

const ID: &str = "01KAJ4M2V8Q0S5T7W9X1Y3Z5A7";
const CHILD: &str = "01KAJ4M2V8Q0S5T7W9X1Y3Z5A8";
/// The statuses by which the gateway rejects a request unread.
const UNREAD: [u16; 6] = [404, 405, 408, 413, 415, 429];

/// Statuses and bodies.
type Responses = VecDeque<(u16, Vec<u8>)>;

/// A gateway that returns scripted responses to every request, in order, and repeats the last one.
struct FakeGateway {
    runtime: tokio::runtime::Runtime,
    responses: Arc<Mutex<Responses>>,
    wire: Wire,
    account: Credentials,
}

impl FakeGateway {
    fn new() -> Self {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let responses: Arc<Mutex<Responses>> = Arc::default();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).expect("a port");
        let base = format!("http://{}", listener.local_addr().expect("bound"));
        let scripted = Arc::clone(&responses);
        let respond = async move || {
            let mut responses = scripted.lock().expect("no panic while locked");
            let (status, body) = if responses.len() > 1 { responses.pop_front() } else { responses.front().cloned() }
                .expect("a response");
            (StatusCode::from_u16(status).expect("a status"), body)
        };
        runtime.spawn(axum::serve(listener, Router::new().fallback(respond)).into_future());
        let account = Credentials::parse(r#"{"username":"shop","api_key":"k","secret_key":"0123456789abcdef"}"#)
            .expect("credentials");
        Self { wire: runtime.block_on(async { Wire::new(base) }), runtime, responses, account }
    }

    /// Runs a call of the adapter against this response, with a timeout.
    fn with_response<T>(&self, status: u16, body: &[u8], call: impl AsyncFnOnce(&Wire, &Credentials) -> T) -> T {
        self.with_responses([(status, body.to_vec())], call)
    }

    /// Runs a call of the adapter against these responses in order.
    fn with_responses<T>(
        &self,
        responses: impl IntoIterator<Item = (u16, Vec<u8>)>,
        call: impl AsyncFnOnce(&Wire, &Credentials) -> T,
    ) -> T {
        *self.responses.lock().expect("no panic while locked") = responses.into_iter().collect();
        let call = async { tokio::time::timeout(Duration::from_secs(8), call(&self.wire, &self.account)).await };
        self.runtime.block_on(call).expect("the adapter ends with every response")
    }
}

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(ms).expect("in range")
}

fn usd(minor: i64) -> Money {
    Money { minor, currency: "USD".parse().expect("a currency") }
}

fn request() -> Request {
    Request {
        account: ProviderAccountId::new(at(1)),
        reference: "op_1".into(),
        action: Action::Charge { source: Source::Card("card_1".into()), money: usd(1200), capture: true },
        now: at(1_800_000_000_000),
        return_url: None,
        payer: None,
        payer_address: None,
        valid_until: at(1_800_000_010_000),
    }
}

fn statuses() -> impl Strategy<Value = u16> {
    prop_oneof![8 => Just(200), 1 => select(&UNREAD[..]), 1 => select(&[201u16, 204, 302, 401, 500, 502, 503][..])]
}

fn success(fields: &Value) -> Value {
    let mut response = json!({"code": "00", "description": "Transaction entry successful", "transaction_id": ID});
    response.as_object_mut().expect("an object").extend(fields.as_object().expect("an object").clone());
    json!({"response": response})
}

/// A page of the report with a charge and a refund.
fn report() -> Value {
    page(&json!([record(CHILD, ID, "REFUND", "5.00"), record(ID, "", "SALE", "12.00")]))
}

fn page(records: &Value) -> Value {
    json!({"response": {
        "code": "00", "description": "Success", "no_of_transactions": "2", "total_pages": 1, "current_page": "1",
        "transactions": records,
    }})
}

fn record(id: &str, parent: &str, kind: &str, amount: &str) -> Value {
    json!({
        "transaction_id": id, "parent_transaction_id": parent, "transaction_type": kind, "transaction_status": "SUCCESS",
        "decline_reason": "", "time_zone": "America/New_York", "gmt_time": "2027-01-15 08:00:00", "card_type": "VISA",
        "credit_card_number": "XXXXXXXXXXXX4242", "card_expiry_date": "12/2034", "currency": "USD", "amount": amount,
        "reference_id": "op_1", "child_reference_id": if parent.is_empty() { "" } else { "op_1" },
    })
}

/// Reports with records in all states, most of them invalid.
fn reports() -> impl Strategy<Value = Value> {
    let status = || select(&["SUCCESS", "FAIL", "FAIL", "PENDING", "success", "fail", ""][..]);
    let reason = || select(&["", "", "declined", "not processed", "in progress", "In progress", "lost card", "?"][..]);
    let amount = select(&["12.00", "12.00", "1.00", "12", ""][..]);
    (status(), reason(), status(), reason(), amount, any::<bool>()).prop_map(
        |(one, why, other, and, amount, charge)| {
            let mut report = report();
            for (n, status, reason) in [(0, one, why), (1, other, and)] {
                let record = &mut report["response"]["transactions"][n];
                (record["transaction_status"], record["decline_reason"]) = (status.into(), reason.into());
            }
            report["response"]["transactions"][1]["amount"] = amount.into();
            let records = report["response"]["transactions"].as_array_mut().expect("a list");
            records.truncate(if charge { 2 } else { 1 });
            report
        },
    )
}

/// A record of a report; other fields are ignored, as in [`code`].
#[derive(serde::Deserialize)]
struct ReportRecord {
    transaction_id: String,
    transaction_type: String,
    transaction_status: String,
    decline_reason: String,
}

/// The records of a report; empty if it cannot be parsed.
fn records(body: &[u8]) -> Vec<ReportRecord> {
    #[derive(serde::Deserialize)]
    struct Envelope {
        response: Report,
    }
    #[derive(serde::Deserialize)]
    struct Report {
        transactions: Vec<ReportRecord>,
    }
    serde_json::from_slice(body).map_or_else(|_| vec![], |read: Envelope| read.response.transactions)
}

/// Whether the report contains a record of this type, status and one of these reasons.
fn has(body: &[u8], kind: &str, status: &str, reasons: &[&str]) -> bool {
    records(body).iter().any(|record| {
        record.transaction_type == kind
            && record.transaction_status == status
            && reasons.contains(&record.decline_reason.as_str())
    })
}

/// The decline reasons of the contract (docs/gateway.md, Report).
const DECLINED: [&str; 10] = [
    "cardholder authentication refused",
    "cardholder authentication expired",
    "authentication required",
    "card not authenticated",
    "declined",
    "insufficient funds",
    "lost card",
    "stolen card",
    "expired card",
    "incorrect cvv",
];

/// A final outcome must come from a record that is final; nothing may be reported missing if the report contains
/// anything.
#[track_caller]
fn assert_outcome_is_in_report(found: &Found, body: &[u8], kind: &str) {
    match found {
        Found::Response(ProviderResponse::Declined { .. }) => {
            assert!(has(body, kind, "FAIL", &DECLINED), "{found:?}")
        }
        Found::Response(ProviderResponse::Refused { .. }) => {
            // A declined refund is a refusal.
            let refused = has(body, kind, "FAIL", &["not processed"]);
            assert!(refused || (kind == "REFUND" && has(body, kind, "FAIL", &DECLINED)), "{found:?}");
        }
        Found::Response(ProviderResponse::Charged { amount, .. }) => {
            assert!(has(body, kind, "SUCCESS", &[""]) && *amount == 1200, "{found:?}");
        }
        Found::Response(_) => assert!(has(body, kind, "SUCCESS", &[""]), "{found:?}"),
        Found::Pending => {
            let pending = ["in progress", "pending cardholder authentication"];
            assert!(has(body, kind, "FAIL", &pending), "{found:?}");
        }
        // `Nothing` allows a retry, so it must be certain.
        Found::Nothing if kind == "SALE" => assert!(records(body).is_empty(), "{found:?}"),
        Found::Nothing => {
            let records = records(body);
            assert!(records.iter().any(|record| record.transaction_id == ID), "without its charge: {found:?}");
        }
    }
}

/// The code of a response, if it has one. Other fields may be nested arbitrarily deeply.
fn code(status: u16, body: &[u8]) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Envelope {
        response: Coded,
    }
    #[derive(serde::Deserialize)]
    struct Coded {
        code: String,
    }
    let read: Envelope = serde_json::from_str(std::str::from_utf8(body).ok()?).ok().filter(|_| status == 200)?;
    Some(read.response.code)
}

/// A response about money must come from a parsed response and be within limits.
#[track_caller]
fn assert_response_is_valid(response: &ProviderResponse, code: Option<&str>) {
    match response {
        ProviderResponse::Charged { provider_ref, amount, card } => {
            assert!(code == Some("00") && is_id(provider_ref) && (0..=MAX_AMOUNT).contains(amount), "{response:?}");
            assert!(card.as_ref().is_none_or(|card| card.is_valid()), "{response:?}");
        }
        ProviderResponse::Stored { provider_ref, card } => {
            assert!(code == Some("00") && is_id(provider_ref) && card.is_valid(), "{response:?}");
        }
        ProviderResponse::Done { provider_ref } => assert!(code == Some("00") && is_id(provider_ref), "{response:?}"),
        ProviderResponse::Mismatched { provider_ref, total } => {
            assert!(code == Some("00") && is_id(provider_ref) && (0..=MAX_AMOUNT).contains(total), "{response:?}");
        }
        ProviderResponse::Challenged { url } => {
            let url = url::Url::parse(url).expect("a URL");
            assert!(code == Some("00") && matches!(url.scheme(), "http" | "https"), "{response:?}");
        }
        ProviderResponse::Declined { .. } | ProviderResponse::Refused { .. } => assert!(code.is_some(), "{response:?}"),
    }
}

#[track_caller]
fn assert_result_matches_code(result: &Result<ProviderResponse, ProviderError>, status: u16, code: Option<&str>) {
    match result {
        Ok(ProviderResponse::Declined { .. } | ProviderResponse::Refused { .. }) => {
            assert!(code.is_some_and(|code| code != "00"))
        }
        Ok(response) => assert_response_is_valid(response, code),
        Err(ProviderError::NotProcessed { .. }) => {
            assert!(UNREAD.contains(&status) || matches!(code, Some("A1" | "A2" | "01" | "09" | "10")));
        }
        Err(ProviderError::Unknown(_)) => assert!(!UNREAD.contains(&status)),
    }
}

#[test]
fn unparsable_responses_are_not_outcomes() {
    let gateway = FakeGateway::new();
    let responses = prop_oneof![
        mutated(success(&json!({"total_amount": 12.00}))),
        mutated(success(&json!({"redirect_url": "https://gateway.example/services/3ds/0a1b"}))),
        mutated(success(
            &json!({"card_token": "card_0a1b", "card_type": "VISA", "credit_card_number": "XXXXXXXXXXXX4242",
            "card_expiry_date": "12/2034"})
        )),
        mutated(json!({"response": {"code": "A1", "description": "card_token is missing"}})),
        mutated(json!({"response": {"code": "18", "description": "Monthly limit exceeded"}})),
        mutated(report()),
    ];
    check((statuses(), responses), |(status, body)| {
        let code = code(status, &body);
        let code = code.as_deref();
        let charged =
            gateway.with_response(status, &body, async |wire, account| sale::charge(wire, account, &request()).await);
        assert_result_matches_code(&charged, status, code);
        if let Ok(ProviderResponse::Charged { amount, .. }) = charged {
            assert_eq!(amount, 1200, "the requested amount");
        }
        let token = Secret::new("fld_1".to_owned());
        assert_result_matches_code(
            &gateway.with_response(status, &body, async |w, a| sale::store_card(w, a, &token).await),
            status,
            code,
        );
        let refund = || follow_up::FollowUp { charge: ID, kind: follow_up::FollowUpKind::Refund(usd(500)) };
        let done =
            gateway.with_response(status, &body, async |w, a| follow_up::execute(w, a, refund(), &request()).await);
        assert_result_matches_code(&done, status, code);
    });
}

#[test]
fn only_a_valid_report_is_an_outcome() {
    let gateway = FakeGateway::new();
    let huge = |pages: u64| {
        let mut report = report();
        report["response"]["total_pages"] = pages.into();
        Bytes(report.to_string().into_bytes())
    };
    let reports = prop_oneof![
        6 => mutated(report()),
        3 => reports().prop_map(|report| Bytes(report.to_string().into_bytes())),
        1 => reports().prop_flat_map(mutated),
        1 => select(vec![0, 2, 40]).prop_map(huge),
    ];
    check((statuses(), reports), |(status, body)| {
        let code = code(status, &body);
        let code = code.as_deref();
        let follow = || follow_up::FollowUp { charge: ID, kind: follow_up::FollowUpKind::Refund(usd(500)) };
        let found = [
            gateway.with_response(status, &body, async |wire, account| sale::look_up(wire, account, &request()).await),
            gateway.with_response(status, &body, async |wire, account| {
                follow_up::look_up(wire, account, follow(), &request()).await
            }),
        ];
        for (found, kind) in found.iter().zip(["SALE", "REFUND"]) {
            match found {
                Ok(found) => {
                    assert_eq!(code, Some("00"));
                    assert_outcome_is_in_report(found, &body, kind);
                    if let Found::Response(response) = found {
                        assert_response_is_valid(response, code);
                    }
                }
                Err(fault) => assert!(matches!(fault, ProviderError::Unknown(_)), "{fault}"),
            }
        }
        let since = at(1_700_000_000_000);
        let read =
            gateway.with_response(status, &body, async |wire, account| statement::read(wire, account, since, 50).await);
        match read {
            Ok(Statement { lines, .. }) => {
                assert!(lines.len() <= 50 && code == Some("00"));
                lines.iter().for_each(|line| assert_response_is_valid(&line.response, code));
            }
            Err(fault) => assert!(matches!(fault, ProviderError::Unknown(_)), "{fault}"),
        }
        let inquiry = ChargeInquiry {
            account: ProviderAccountId::new(at(1)),
            charge: ID.into(),
            reference: "op_1".into(),
            now: at(1_800_000_000_000),
            created_at: since,
            captured_at: Some(since),
        };
        let report = gateway.with_response(status, &body, async |w, a| inquiry::report(w, a, &inquiry).await);
        assert!(report.is_err() || code == Some("00"));
    });
}

/// A report that announces endless pages would keep a worker busy and could overflow the page counter.
#[test]
fn a_report_with_endless_pages_is_rejected() {
    let gateway = FakeGateway::new();
    for pages in [u64::from(u32::MAX) + 1, 1 << 62, u64::MAX] {
        let mut report = report();
        report["response"]["total_pages"] = pages.into();
        let body = report.to_string().into_bytes();
        let read = gateway.with_response(200, &body, async |w, a| statement::read(w, a, at(0), 50).await);
        assert!(matches!(read, Err(ProviderError::Unknown(_))), "{pages}: {read:?}");
        let found =
            gateway.with_response(200, &body, async |wire, account| sale::look_up(wire, account, &request()).await);
        assert!(matches!(found, Err(ProviderError::Unknown(_))), "{pages}: {found:?}");
    }
}

#[test]
fn a_card_that_cannot_be_saved_is_declined_as_it_would_be_for_a_charge() {
    let (gateway, token) = (FakeGateway::new(), Secret::new("fld_1".to_owned()));
    for (code, expected) in [("03", DeclineCode::ExpiredCard), ("11", DeclineCode::CardNotSupported)] {
        let body = json!({"response": {"code": code, "description": "refused"}}).to_string();
        let stored = gateway.with_response(200, body.as_bytes(), async |w, a| sale::store_card(w, a, &token).await);
        let Ok(ProviderResponse::Declined { decline, card: None }) = stored else { panic!("{code}: {stored:?}") };
        assert_eq!(decline.code, expected.name());
    }
}

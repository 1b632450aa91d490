//! The adapter against a gateway that answers anything at all. What cannot be read is an unknown outcome and never an end.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use testkit::fuzz::{Bytes, check, json as mutated};

use super::wire::{Wire, is_name};
use super::{Credentials, follow, inquiry, sale, statement};
use crate::crypto::Secret;
use crate::id::ProviderAccountId;
use crate::money::{MAX_AMOUNT, Money};
use crate::providers::{Action, Answer, Fault, Found, Inquired, Request, Source};
use crate::time::Timestamp;

const ID: &str = "01KAJ4M2V8Q0S5T7W9X1Y3Z5A7";
const CHILD: &str = "01KAJ4M2V8Q0S5T7W9X1Y3Z5A8";
/// By which the gateway says that it has not looked at a request.
const UNREAD: [u16; 6] = [404, 405, 408, 413, 415, 429];

/// Statuses and bodies.
type Says = VecDeque<(u16, Vec<u8>)>;

/// A gateway that says whatever it is told to, to everyone: one thing after the other, and the last for ever.
struct Liar {
    runtime: tokio::runtime::Runtime,
    says: Arc<Mutex<Says>>,
    wire: Wire,
    account: Credentials,
}

impl Liar {
    fn new() -> Self {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let says: Arc<Mutex<Says>> = Arc::default();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).expect("a port");
        let base = format!("http://{}", listener.local_addr().expect("bound"));
        let told = Arc::clone(&says);
        let answer = async move || {
            let mut says = told.lock().expect("nobody panics with it");
            let (status, body) = if says.len() > 1 { says.pop_front() } else { says.front().cloned() }.expect("told");
            (StatusCode::from_u16(status).expect("a status"), body)
        };
        runtime.spawn(axum::serve(listener, Router::new().fallback(answer)).into_future());
        let account =
            Credentials::parse(r#"{"username":"shop","api_key":"k","secret_key":"0123456789abcdef"}"#).expect("whole");
        Self { wire: runtime.block_on(async { Wire::new(base) }), runtime, says, account }
    }

    /// What the adapter makes of this answer, before anybody loses patience.
    fn asked<T>(&self, status: u16, body: &[u8], ask: impl AsyncFnOnce(&Wire, &Credentials) -> T) -> T {
        self.told([(status, body.to_vec())], ask)
    }

    /// The same of these answers in their order.
    fn told<T>(
        &self,
        answers: impl IntoIterator<Item = (u16, Vec<u8>)>,
        ask: impl AsyncFnOnce(&Wire, &Credentials) -> T,
    ) -> T {
        *self.says.lock().expect("nobody panics with it") = answers.into_iter().collect();
        let asked = async { tokio::time::timeout(Duration::from_secs(8), ask(&self.wire, &self.account)).await };
        self.runtime.block_on(asked).expect("no answer makes the adapter go on asking")
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
        recorded: vec![],
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

/// A page of the report with a charge and what followed it.
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
        "reference_id": "op_1",
    })
}

/// Reports whose records stand in all ways, most of which are none.
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

/// A record of a report. Whatever else is in it is not looked at, as in [`code`].
#[derive(serde::Deserialize)]
struct Shown {
    transaction_id: String,
    transaction_type: String,
    transaction_status: String,
    decline_reason: String,
}

/// The records of a report, none if it is none.
fn records(body: &[u8]) -> Vec<Shown> {
    #[derive(serde::Deserialize)]
    struct Envelope {
        response: Report,
    }
    #[derive(serde::Deserialize)]
    struct Report {
        transactions: Vec<Shown>,
    }
    serde_json::from_slice(body).map_or_else(|_| vec![], |read: Envelope| read.response.transactions)
}

/// Whether there is one of which a report says so.
fn has(body: &[u8], kind: &str, status: &str, reasons: &[&str]) -> bool {
    records(body).iter().any(|record| {
        record.transaction_type == kind
            && record.transaction_status == status
            && reasons.contains(&record.decline_reason.as_str())
    })
}

/// What a report may say of what was declined (docs/gateway.md, Report).
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

/// What ends a charge was said of one that is a failure, and nothing is missing where a report shows anything.
#[track_caller]
fn is_told(found: &Found, body: &[u8], kind: &str) {
    match found {
        Found::Answer(Answer::Declined { .. }) => assert!(has(body, kind, "FAIL", &DECLINED), "{found:?}"),
        Found::Answer(Answer::Refused { .. }) => assert!(has(body, kind, "FAIL", &["not processed"]), "{found:?}"),
        Found::Answer(Answer::Charged { amount, .. }) => {
            assert!(has(body, kind, "SUCCESS", &[""]) && *amount == 1200, "{found:?}");
        }
        Found::Answer(_) => assert!(has(body, kind, "SUCCESS", &[""]), "{found:?}"),
        Found::Pending => {
            let pending = ["in progress", "pending cardholder authentication"];
            assert!(has(body, kind, "FAIL", &pending), "{found:?}");
        }
        // It may be sent again: that is not said lightly.
        Found::Nothing if kind == "SALE" => assert!(records(body).is_empty(), "{found:?}"),
        Found::Nothing => {
            let records = records(body);
            assert!(records.iter().any(|record| record.transaction_id == ID), "without its charge: {found:?}");
        }
    }
}

/// The code of an answer that is one. Whatever else is in it may be nested as deeply as it likes.
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

/// What is said of money is said by an answer that can be read, and is within bounds.
#[track_caller]
fn is_sound(answer: &Answer, code: Option<&str>) {
    match answer {
        Answer::Charged { provider_ref, amount, card } => {
            assert!(code == Some("00") && is_name(provider_ref) && (0..=MAX_AMOUNT).contains(amount), "{answer:?}");
            assert!(card.as_ref().is_none_or(|card| card.is_shown()), "{answer:?}");
        }
        Answer::Stored { provider_ref, card } => {
            assert!(code == Some("00") && is_name(provider_ref) && card.is_shown(), "{answer:?}");
        }
        Answer::Done { provider_ref } => assert!(code == Some("00") && is_name(provider_ref), "{answer:?}"),
        Answer::Mismatched { provider_ref, total } => {
            assert!(code == Some("00") && is_name(provider_ref) && (0..=MAX_AMOUNT).contains(total), "{answer:?}");
        }
        Answer::Challenged { url } => {
            let url = url::Url::parse(url).expect("an address");
            assert!(code == Some("00") && matches!(url.scheme(), "http" | "https"), "{answer:?}");
        }
        Answer::Declined { .. } | Answer::Refused { .. } => assert!(code.is_some(), "{answer:?}"),
    }
}

#[track_caller]
fn is_right(said: &Result<Answer, Fault>, status: u16, code: Option<&str>) {
    match said {
        Ok(Answer::Declined { .. } | Answer::Refused { .. }) => assert!(code.is_some_and(|code| code != "00")),
        Ok(answer) => is_sound(answer, code),
        Err(Fault::NotProcessed { .. }) => {
            assert!(UNREAD.contains(&status) || matches!(code, Some("A1" | "A2" | "01" | "09" | "10")));
        }
        Err(Fault::Unknown(_)) => assert!(!UNREAD.contains(&status)),
    }
}

#[test]
fn an_answer_that_cannot_be_read_is_no_outcome() {
    let liar = Liar::new();
    let answers = prop_oneof![
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
    check((statuses(), answers), |(status, body)| {
        let code = code(status, &body);
        let code = code.as_deref();
        let charged = liar.asked(status, &body, async |wire, account| sale::charge(wire, account, &request()).await);
        is_right(&charged, status, code);
        if let Ok(Answer::Charged { amount, .. }) = charged {
            assert_eq!(amount, 1200, "what was asked for");
        }
        let token = Secret::new("fld_1".to_owned());
        is_right(&liar.asked(status, &body, async |w, a| sale::store_card(w, a, &token).await), status, code);
        let refund = || follow::Follow { charge: ID, kind: follow::Kind::Refund(usd(500)) };
        let done = liar.asked(status, &body, async |w, a| follow::execute(w, a, refund(), &request()).await);
        is_right(&done, status, code);
    });
}

#[test]
fn only_a_report_says_what_became_of_a_request() {
    let liar = Liar::new();
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
        let follow = || follow::Follow { charge: ID, kind: follow::Kind::Refund(usd(500)) };
        let found = [
            liar.asked(status, &body, async |wire, account| sale::look_up(wire, account, &request()).await),
            liar.asked(status, &body, async |wire, account| follow::look_up(wire, account, follow(), &request()).await),
        ];
        for (found, kind) in found.iter().zip(["SALE", "REFUND"]) {
            match found {
                Ok(found) => {
                    assert_eq!(code, Some("00"));
                    is_told(found, &body, kind);
                    if let Found::Answer(answer) = found {
                        is_sound(answer, code);
                    }
                }
                Err(fault) => assert!(matches!(fault, Fault::Unknown(_)), "{fault}"),
            }
        }
        let since = at(1_700_000_000_000);
        let lines = liar.asked(status, &body, async |wire, account| statement::read(wire, account, since, 50).await);
        match lines {
            Ok(lines) => {
                assert!(lines.len() <= 50 && code == Some("00"));
                lines.iter().for_each(|line| is_sound(&line.answer, code));
            }
            Err(fault) => assert!(matches!(fault, Fault::Unknown(_)), "{fault}"),
        }
        let inquired = Inquired {
            account: ProviderAccountId::new(at(1)),
            charge: ID.into(),
            reference: "op_1".into(),
            now: at(1_800_000_000_000),
            created_at: since,
            captured_at: Some(since),
        };
        let standing = liar.asked(status, &body, async |w, a| inquiry::report(w, a, &inquired).await);
        assert!(standing.is_err() || code == Some("00"));
    });
}

/// A report that claims to go on for ever would keep a worker busy, and was once added to until it overflowed.
#[test]
fn a_report_of_endless_pages_is_no_report() {
    let liar = Liar::new();
    for pages in [u64::from(u32::MAX) + 1, 1 << 62, u64::MAX] {
        let mut report = report();
        report["response"]["total_pages"] = pages.into();
        let body = report.to_string().into_bytes();
        let read = liar.asked(200, &body, async |w, a| statement::read(w, a, at(0), 50).await);
        assert!(matches!(read, Err(Fault::Unknown(_))), "{pages}: {read:?}");
        let found = liar.asked(200, &body, async |wire, account| sale::look_up(wire, account, &request()).await);
        assert!(matches!(found, Err(Fault::Unknown(_))), "{pages}: {found:?}");
    }
}

// --- what certainly says no end -----------------------------------------------------------------------------------------

fn with(mut record: Value, fields: &[(&str, &str)]) -> Value {
    fields.iter().for_each(|(name, text)| record[*name] = (*text).into());
    record
}

fn sale() -> Value {
    record(ID, "", "SALE", "12.00")
}

fn refund() -> Value {
    record(CHILD, ID, "REFUND", "5.00")
}

impl Liar {
    /// What became of the charge, by these pages.
    fn charge_by(&self, pages: &[Value]) -> Result<Found, Fault> {
        let pages = pages.iter().map(|page| (200, page.to_string().into_bytes()));
        self.told(pages, async |wire, account| sale::look_up(wire, account, &request()).await)
    }

    /// What became of a refund of 5.00, where the charge itself is found.
    fn refund_by(&self, pages: &[Value]) -> Result<Found, Fault> {
        let pages = [&[page(&json!([sale()]))], pages].concat();
        let pages = pages.iter().map(|page| (200, page.to_string().into_bytes()));
        let follow = follow::Follow { charge: ID, kind: follow::Kind::Refund(usd(500)) };
        self.told(pages, async |wire, account| follow::look_up(wire, account, follow, &request()).await)
    }

    fn lines_by(&self, page: &Value) -> Result<usize, Fault> {
        let read = self.asked(200, page.to_string().as_bytes(), async |w, a| statement::read(w, a, at(0), 50).await);
        Ok(read?.len())
    }
}

#[track_caller]
fn is_unknown<T: std::fmt::Debug>(said: &Result<T, Fault>, why: &str) {
    assert!(matches!(said, Err(Fault::Unknown(_))), "{why}: {said:?}");
}

#[test]
fn a_status_that_is_none_ends_nothing() {
    let liar = Liar::new();
    for status in ["PENDING", "success", "fail", "", "SUCCESS "] {
        let odd = |record| with(record, &[("transaction_status", status)]);
        is_unknown(&liar.charge_by(&[page(&json!([odd(sale())]))]), status);
        is_unknown(&liar.refund_by(&[page(&json!([odd(refund()), sale()]))]), status);
        is_unknown(&liar.lines_by(&page(&json!([odd(sale())]))), status);
    }
    for (status, reason) in
        [("FAIL", ""), ("FAIL", "In progress"), ("FAIL", "held for review"), ("SUCCESS", "declined")]
    {
        let odd = |record| with(record, &[("transaction_status", status), ("decline_reason", reason)]);
        is_unknown(&liar.charge_by(&[page(&json!([odd(sale())]))]), reason);
        is_unknown(&liar.refund_by(&[page(&json!([odd(refund()), sale()]))]), reason);
    }
    for odd in [("transaction_type", "Refund"), ("amount", "5"), ("currency", "")] {
        is_unknown(&liar.refund_by(&[page(&json!([with(refund(), &[odd]), sale()]))]), odd.0);
    }
    for odd in [("amount", ""), ("gmt_time", "")] {
        is_unknown(&liar.lines_by(&page(&json!([with(sale(), &[odd])]))), odd.0);
    }
}

#[test]
fn what_the_report_says_of_a_failure_is_its_end() {
    let liar = Liar::new();
    let failed = |record, reason| with(record, &[("transaction_status", "FAIL"), ("decline_reason", reason)]);
    for reason in DECLINED {
        let found = liar.charge_by(&[page(&json!([failed(sale(), reason)]))]);
        assert!(matches!(found, Ok(Found::Answer(Answer::Declined { .. }))), "{reason}: {found:?}");
    }
    let found = liar.charge_by(&[page(&json!([failed(sale(), "not processed")]))]);
    assert!(matches!(found, Ok(Found::Answer(Answer::Refused { .. }))), "{found:?}");
    for reason in ["declined", "not processed"] {
        let found = liar.refund_by(&[page(&json!([failed(refund(), reason), sale()]))]);
        assert!(matches!(found, Ok(Found::Nothing)), "{reason}: {found:?}");
    }
    let found = liar.refund_by(&[page(&json!([failed(refund(), "in progress"), refund(), sale()]))]);
    assert!(matches!(found, Ok(Found::Pending)), "{found:?}");
    assert!(matches!(liar.lines_by(&page(&json!([failed(sale(), "declined"), sale()]))), Ok(1)));
}

#[test]
fn a_report_with_something_left_out_says_nothing_of_it() {
    let liar = Liar::new();
    let paged = |number: &str, pages: u32, records: Value| {
        let mut page = page(&records);
        (page["response"]["current_page"], page["response"]["total_pages"]) = (number.into(), pages.into());
        page
    };
    let none = || json!([]);
    let empty = paged("1", 0, none());
    assert!(matches!(liar.charge_by(std::slice::from_ref(&empty)), Ok(Found::Nothing)), "as it tells of none");
    is_unknown(&liar.charge_by(&[paged("1", 3, none())]), "three pages, and nothing on the first");
    is_unknown(&liar.charge_by(&[paged("1", 2, json!([sale()]))]), "the first page twice");
    is_unknown(&liar.charge_by(&[page(&json!([refund()]))]), "a child without its charge");
    is_unknown(&liar.charge_by(&[page(&json!([sale(), sale()]))]), "two charges");
    is_unknown(&liar.charge_by(&[page(&json!([with(sale(), &[("reference_id", "op_2")])]))]), "another's charge");
    is_unknown(&liar.refund_by(&[empty]), "the charge has gone");
    is_unknown(&liar.refund_by(&[page(&json!([record(CHILD, ID, "REFUND", "1.00")]))]), "without the charge");
    is_unknown(&liar.refund_by(&[page(&json!([record(CHILD, "", "REFUND", "5.00"), sale()]))]), "of no charge");
    is_unknown(&liar.refund_by(&[paged("1", 3, json!([sale()])), paged("2", 3, none())]), "an empty page of three");
    is_unknown(&liar.lines_by(&paged("1", 1, none())), "a page that is announced and empty");
    let two = [paged("1", 2, json!([record("other", ID, "VOID", "12.00")])), paged("2", 2, json!([sale()]))];
    assert!(matches!(liar.refund_by(&two), Ok(Found::Nothing)), "both pages are there");
}

#[test]
fn a_charge_of_another_amount_is_not_the_one_that_was_asked() {
    let liar = Liar::new();
    for odd in [("amount", "1.00"), ("amount", "12.01"), ("currency", "EUR"), ("transaction_type", "AUTHORIZE")] {
        is_unknown(&liar.charge_by(&[page(&json!([with(sale(), &[odd])]))]), odd.1);
    }
    // A fee comes on top of what was asked, so this is no charge of ours to book.
    let fee = with(sale(), &[("surcharge", "0.50"), ("total_amount", "12.50")]);
    let found = liar.charge_by(&[page(&json!([fee]))]);
    assert!(matches!(found, Ok(Found::Answer(Answer::Mismatched { total: 1250, .. }))), "{found:?}");
}

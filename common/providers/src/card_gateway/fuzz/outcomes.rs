//! Responses that must not be taken for final outcomes.

use super::*;

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

impl FakeGateway {
    /// Looks up the charge in these pages.
    fn charge_by(&self, pages: &[Value]) -> Result<Found, ProviderError> {
        let pages = pages.iter().map(|page| (200, page.to_string().into_bytes()));
        self.with_responses(pages, async |wire, account| sale::look_up(wire, account, &request()).await)
    }

    /// Looks up a refund of 5.00 in these pages; the charge itself is found.
    fn refund_by(&self, pages: &[Value]) -> Result<Found, ProviderError> {
        let pages = [&[page(&json!([sale()]))], pages].concat();
        let pages = pages.iter().map(|page| (200, page.to_string().into_bytes()));
        let follow = follow_up::FollowUp { charge: ID, kind: follow_up::FollowUpKind::Refund(usd(500)) };
        self.with_responses(pages, async |wire, account| follow_up::look_up(wire, account, follow, &request()).await)
    }

    fn statement_by(&self, page: &Value) -> Result<Statement, ProviderError> {
        self.with_response(200, page.to_string().as_bytes(), async |w, a| statement::read(w, a, at(0), 50).await)
    }

    fn lines_by(&self, page: &Value) -> Result<usize, ProviderError> {
        Ok(self.statement_by(page)?.lines.len())
    }
}

#[track_caller]
fn assert_unknown<T: std::fmt::Debug>(result: &Result<T, ProviderError>, why: &str) {
    assert!(matches!(result, Err(ProviderError::Unknown(_))), "{why}: {result:?}");
}

#[test]
fn unknown_statuses_are_not_outcomes() {
    let gateway = FakeGateway::new();
    for status in ["PENDING", "success", "fail", "", "SUCCESS "] {
        let changed = |record| with(record, &[("transaction_status", status)]);
        assert_unknown(&gateway.charge_by(&[page(&json!([changed(sale())]))]), status);
        assert_unknown(&gateway.refund_by(&[page(&json!([changed(refund()), sale()]))]), status);
        assert_unknown(&gateway.lines_by(&page(&json!([changed(sale())]))), status);
    }
    for (status, reason) in
        [("FAIL", ""), ("FAIL", "In progress"), ("FAIL", "held for review"), ("SUCCESS", "declined")]
    {
        let changed = |record| with(record, &[("transaction_status", status), ("decline_reason", reason)]);
        assert_unknown(&gateway.charge_by(&[page(&json!([changed(sale())]))]), reason);
        assert_unknown(&gateway.refund_by(&[page(&json!([changed(refund()), sale()]))]), reason);
    }
    for changed in [("transaction_type", "Refund"), ("amount", "5"), ("currency", "")] {
        assert_unknown(&gateway.refund_by(&[page(&json!([with(refund(), &[changed]), sale()]))]), changed.0);
    }
    for changed in [("amount", ""), ("gmt_time", "")] {
        assert_unknown(&gateway.lines_by(&page(&json!([with(sale(), &[changed])]))), changed.0);
    }
}

#[test]
fn reported_failures_are_final() {
    let gateway = FakeGateway::new();
    let failed = |record, reason| with(record, &[("transaction_status", "FAIL"), ("decline_reason", reason)]);
    for reason in DECLINED {
        let found = gateway.charge_by(&[page(&json!([failed(sale(), reason)]))]);
        assert!(matches!(found, Ok(Found::Response(ProviderResponse::Declined { .. }))), "{reason}: {found:?}");
    }
    let found = gateway.charge_by(&[page(&json!([failed(sale(), "not processed")]))]);
    assert!(matches!(found, Ok(Found::Response(ProviderResponse::Refused { .. }))), "{found:?}");
    for reason in ["declined", "not processed"] {
        let found = gateway.refund_by(&[page(&json!([failed(refund(), reason), sale()]))]);
        assert!(matches!(found, Ok(Found::Response(ProviderResponse::Refused { .. }))), "{reason}: {found:?}");
    }
    let found = gateway.refund_by(&[page(&json!([failed(refund(), "in progress"), sale()]))]);
    assert!(matches!(found, Ok(Found::Pending)), "{found:?}");
    assert!(matches!(gateway.lines_by(&page(&json!([failed(sale(), "declined"), sale()]))), Ok(1)));
}

/// A refund that we did not request, whatever its outcome, says nothing about ours, which may then be sent.
#[test]
fn only_a_child_with_our_reference_is_ours() {
    let gateway = FakeGateway::new();
    for theirs in ["", "op_2", "by hand"] {
        for (status, reason) in [("SUCCESS", ""), ("FAIL", "in progress"), ("FAIL", "not processed")] {
            let fields = [("child_reference_id", theirs), ("transaction_status", status), ("decline_reason", reason)];
            let found = gateway.refund_by(&[page(&json!([with(refund(), &fields), sale()]))]);
            assert!(matches!(found, Ok(Found::Nothing)), "{theirs:?} {status}: {found:?}");
        }
    }
    let mut unnamed = refund();
    unnamed.as_object_mut().expect("an object").remove("child_reference_id");
    assert_unknown(&gateway.refund_by(&[page(&json!([unnamed, sale()]))]), "a report without references of children");
    assert_unknown(&gateway.refund_by(&[page(&json!([refund(), refund(), sale()]))]), "two with our reference");
}

/// A transaction in progress becomes a line of the time at which it was entered, so a reader must begin there again.
#[test]
fn the_statement_has_the_time_of_the_oldest_transaction_in_progress() {
    let gateway = FakeGateway::new();
    let since = |newer: &[(&str, &str)], older: &[(&str, &str)]| {
        let newer = with(with(sale(), &[("gmt_time", "2027-01-15 08:10:00")]), newer);
        let read = gateway.statement_by(&page(&json!([newer, with(sale(), older)]))).expect("a statement");
        read.unfinished_since.map(|at| at.as_millisecond())
    };
    let failed = |reason| [("transaction_status", "FAIL"), ("decline_reason", reason)];
    let (newer, older) = (1_800_000_600_000, 1_800_000_000_000);
    assert_eq!(since(&[], &[]), None);
    assert_eq!(since(&failed("declined"), &failed("not processed")), None);
    assert_eq!(since(&[], &failed("in progress")), Some(older));
    assert_eq!(since(&failed("in progress"), &[]), Some(newer));
    assert_eq!(since(&failed("in progress"), &failed("pending cardholder authentication")), Some(older));
}

#[test]
fn incomplete_reports_are_not_outcomes() {
    let gateway = FakeGateway::new();
    let paged = |number: &str, pages: u32, records: Value| {
        let mut page = page(&records);
        (page["response"]["current_page"], page["response"]["total_pages"]) = (number.into(), pages.into());
        page
    };
    let no_records = || json!([]);
    let empty = paged("1", 0, no_records());
    assert!(matches!(gateway.charge_by(std::slice::from_ref(&empty)), Ok(Found::Nothing)), "no pages announced");
    assert_unknown(&gateway.charge_by(&[paged("1", 3, no_records())]), "three pages, and nothing on the first");
    assert_unknown(&gateway.charge_by(&[paged("1", 2, json!([sale()]))]), "the first page twice");
    assert_unknown(&gateway.charge_by(&[page(&json!([refund()]))]), "a child without its charge");
    assert_unknown(&gateway.charge_by(&[page(&json!([sale(), sale()]))]), "two charges");
    assert_unknown(
        &gateway.charge_by(&[page(&json!([with(sale(), &[("reference_id", "op_2")])]))]),
        "a charge with another reference",
    );
    assert_unknown(&gateway.refund_by(&[empty]), "no charge in the report");
    assert_unknown(&gateway.refund_by(&[page(&json!([record(CHILD, ID, "REFUND", "1.00")]))]), "without the charge");
    assert_unknown(
        &gateway.refund_by(&[page(&json!([record(CHILD, "", "REFUND", "5.00"), sale()]))]),
        "without a parent",
    );
    assert_unknown(
        &gateway.refund_by(&[paged("1", 3, json!([sale()])), paged("2", 3, no_records())]),
        "an empty page of three",
    );
    assert_unknown(&gateway.lines_by(&paged("1", 1, no_records())), "an announced page is empty");
    let void = with(record("other", ID, "VOID", "12.00"), &[("child_reference_id", "op_2")]);
    let two = [paged("1", 2, json!([void])), paged("2", 2, json!([sale()]))];
    assert!(matches!(gateway.refund_by(&two), Ok(Found::Nothing)), "both pages were read");
}

#[test]
fn charges_that_differ_from_the_request_are_unknown() {
    let gateway = FakeGateway::new();
    for changed in [("amount", "1.00"), ("amount", "12.01"), ("currency", "EUR"), ("transaction_type", "AUTHORIZE")] {
        assert_unknown(&gateway.charge_by(&[page(&json!([with(sale(), &[changed])]))]), changed.1);
    }
    // A fee is added to the requested amount, so this charge is not booked.
    let fee = with(sale(), &[("surcharge", "0.50"), ("total_amount", "12.50")]);
    let found = gateway.charge_by(&[page(&json!([fee]))]);
    assert!(matches!(found, Ok(Found::Response(ProviderResponse::Mismatched { total: 1250, .. }))), "{found:?}");
}

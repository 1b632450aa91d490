use super::*;
use domain::operations::OperationKind;
use foundation::id::{DisputeId, OperationId};
use foundation::money::Money;
use foundation::time::Timestamp;
use providers::{ParentCharge, ProviderResponse};

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(1_800_000_000_000 + ms).expect("in range")
}

fn dollars(minor: i64) -> Money {
    Money { minor, currency: "USD".parse().expect("a currency") }
}

fn line(entry: Entry, reference: &str, provider_ref: &str, minor: i64) -> StatementLine {
    let charge = ParentCharge { provider_ref: "ch_1".to_owned(), reference: "op_1".to_owned() };
    StatementLine {
        entry,
        reference: reference.to_owned(),
        provider_ref: provider_ref.to_owned(),
        money: dollars(minor),
        follows: (entry != Entry::Charge).then_some(charge),
        response: ProviderResponse::Done { provider_ref: provider_ref.to_owned() },
        occurred_at: at(0),
    }
}

fn recorded(kind: OperationKind, reference: &str, state: State, provider_ref: Option<&str>) -> RecordedOperation {
    RecordedOperation {
        id: OperationId::new(at(0)),
        reference: reference.to_owned(),
        kind,
        state,
        provider_ref: provider_ref.map(str::to_owned),
        target_ref: (kind != OperationKind::Sale).then(|| "ch_1".to_owned()),
        payment_id: Some(PaymentId::new(at(1))),
        amount: Some(500),
        currency: "USD".parse().ok(),
        first_sent_at: Some(at(0)),
        settled_at: Some(at(0)),
        finished_at: state.is_final().then(|| at(0)),
        age_seconds: 0.0,
        is_held: false,
    }
}

#[test]
fn differences_are_classified() {
    let done = recorded(OperationKind::Refund, "op_2", State::Succeeded, Some("re_1"));
    let refund = |provider_ref, minor| line(Entry::Refund, "op_2", provider_ref, minor);
    assert_eq!(find_difference(&done, &refund("re_1", 500)), None);
    assert_eq!(find_difference(&done, &refund("re_1", 499)), Some(Difference::Amount));
    assert_eq!(find_difference(&done, &refund("re_2", 500)), Some(Difference::Status), "another provider reference");
    assert_eq!(
        find_difference(&done, &line(Entry::Capture, "op_2", "re_1", 500)),
        Some(Difference::Status),
        "another kind"
    );
    let euros = StatementLine {
        money: Money { minor: 500, currency: "EUR".parse().expect("a currency") },
        ..refund("re_1", 500)
    };
    assert_eq!(find_difference(&done, &euros), Some(Difference::Amount), "another currency");
    let other = ParentCharge { provider_ref: "ch_2".to_owned(), reference: "op_9".to_owned() };
    let elsewhere = StatementLine { follows: Some(other), ..refund("re_1", 500) };
    assert_eq!(find_difference(&done, &elsewhere), Some(Difference::Status), "another charge");
    let failed = recorded(OperationKind::Refund, "op_2", State::Failed, None);
    assert_eq!(find_difference(&failed, &refund("re_1", 500)), Some(Difference::Status));
    // A void's line has the amount of the whole charge, so amounts are not compared.
    let voided = recorded(OperationKind::Void, "op_3", State::Succeeded, Some("vo_1"));
    assert_eq!(find_difference(&voided, &line(Entry::Void, "op_3", "vo_1", 900)), None);
}

#[test]
fn lines_match_by_reference_or_by_provider_ref_of_their_charge() {
    let (charge, named) = (
        recorded(OperationKind::Sale, "op_1", State::Succeeded, Some("ch_1")),
        recorded(OperationKind::Refund, "op_2", State::Succeeded, Some("re_1")),
    );
    let unknown = recorded(OperationKind::Refund, "op_3", State::Unknown, None);
    let cancelling = recorded(OperationKind::Void, "op_4", State::Unknown, None);
    let our_books =
        OurBooks::for_payment(PaymentId::new(at(1)), vec![charge.clone(), named, unknown, cancelling.clone()]);
    let dispute = DisputeMovement {
        entry: Entry::DisputeWithdrawn,
        dispute_id: DisputeId::new(at(2)),
        payment_id: PaymentId::new(at(1)),
        provider_ref: "dis_1".to_owned(),
        money: dollars(500),
        written_at: None,
    };
    let withdrawn = |minor| line(Entry::DisputeWithdrawn, "", "dis_1", minor);
    let difference = |line: &StatementLine| OurEntry::from(&dispute).difference(line);
    assert_eq!(difference(&withdrawn(500)), None);
    assert_eq!(difference(&withdrawn(499)), Some(Difference::Amount));
    assert_eq!(difference(&line(Entry::DisputeReinstated, "", "dis_1", 500)), Some(Difference::Status));
    let our_books = OurBooks {
        movements: HashMap::from([("dis_1".to_owned(), dispute.clone())]),
        of_payments: HashMap::from([(
            charge.payment_id.expect("it has one"),
            our_books.of_payments.into_values().next().expect("one"),
        )]),
        ..our_books
    };
    let about = |line: &StatementLine| match our_books.match_line(line) {
        LineMatch::Operation(recorded) => recorded.reference.clone(),
        LineMatch::Unmatched { candidate: Some(recorded), .. } => format!("candidate {}", recorded.reference),
        LineMatch::Movement(movement) => movement.provider_ref.clone(),
        LineMatch::Unmatched { payment, .. } => format!("unmatched, payment found: {}", payment.is_some()),
    };
    assert_eq!(about(&line(Entry::Refund, "op_2", "re_1", 500)), "op_2");
    // An operator may have entered a transaction without a reference as the outcome.
    assert_eq!(about(&line(Entry::Refund, "", "re_1", 500)), "op_2");
    // A manual refund, although ours of the same amount is unfinished.
    assert_eq!(about(&line(Entry::Refund, "", "re_9", 500)), "unmatched, payment found: true");
    // A cancellation without a reference may be ours.
    assert_eq!(about(&line(Entry::Void, "", "vo_9", 500)), "candidate op_4");
    // Unless ours has ended otherwise: the provider refuses a second one, and the inquiry after that reports the first.
    let refused = RecordedOperation { state: State::Failed, ..cancelling };
    let ended = OurBooks::for_payment(charge.payment_id.expect("it has one"), vec![charge.clone(), refused]);
    let by_hand = line(Entry::Void, "", "vo_9", 500);
    assert!(matches!(ended.match_line(&by_hand), LineMatch::Unmatched { candidate: None, .. }));
    assert_eq!(about(&withdrawn(499)), "dis_1");
    assert_eq!(about(&line(Entry::DisputeReinstated, "", "dis_2", 500)), "unmatched, payment found: true");
    // A line with a foreign reference matches no operation, whatever its amount.
    assert_eq!(about(&line(Entry::Refund, "theirs", "re_9", 500)), "unmatched, payment found: true");
    assert_eq!(about(&line(Entry::Charge, "theirs", "ch_9", 500)), "unmatched, payment found: false");
}

#[test]
fn operations_are_listed_by_reference_or_provider_ref() {
    let lines = [line(Entry::Refund, "op_2", "re_1", 500), line(Entry::Refund, "", "re_2", 500)];
    let is_listed = listed_in(&lines);
    let refund = |reference, name| recorded(OperationKind::Refund, reference, State::Succeeded, Some(name));
    assert!(is_listed(&refund("op_2", "re_9")) && is_listed(&refund("op_9", "re_2")));
    assert!(!is_listed(&refund("op_9", "re_9")) && !is_listed(&refund("", "re_9")));
}

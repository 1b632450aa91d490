use super::*;
use crate::id::OperationId;
use crate::money::Money;
use crate::operations::Kind;
use crate::providers::{Answer, Followed};
use crate::time::Timestamp;

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(1_800_000_000_000 + ms).expect("in range")
}

fn dollars(minor: i64) -> Money {
    Money { minor, currency: "USD".parse().expect("a currency") }
}

fn line(entry: Entry, reference: &str, provider_ref: &str, minor: i64) -> StatementLine {
    let charge = Followed { provider_ref: "ch_1".to_owned(), reference: "op_1".to_owned() };
    StatementLine {
        entry,
        reference: reference.to_owned(),
        provider_ref: provider_ref.to_owned(),
        money: dollars(minor),
        follows: (entry != Entry::Charge).then_some(charge),
        answer: Answer::Done { provider_ref: provider_ref.to_owned() },
        occurred_at: at(0),
    }
}

fn known(kind: Kind, reference: &str, state: State, provider_ref: Option<&str>) -> Known {
    Known {
        id: OperationId::new(at(0)),
        reference: reference.to_owned(),
        kind,
        state,
        provider_ref: provider_ref.map(str::to_owned),
        target_ref: (kind != Kind::Sale).then(|| "ch_1".to_owned()),
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
fn each_way_to_differ_has_its_name() {
    let done = known(Kind::Refund, "op_2", State::Succeeded, Some("re_1"));
    let refund = |provider_ref, minor| line(Entry::Refund, "op_2", provider_ref, minor);
    assert_eq!(differs(&done, &refund("re_1", 500)), None);
    assert_eq!(differs(&done, &refund("re_1", 499)), Some(Difference::Amount));
    assert_eq!(differs(&done, &refund("re_2", 500)), Some(Difference::Status), "another name");
    assert_eq!(differs(&done, &line(Entry::Capture, "op_2", "re_1", 500)), Some(Difference::Status), "another kind");
    let euros = StatementLine {
        money: Money { minor: 500, currency: "EUR".parse().expect("a currency") },
        ..refund("re_1", 500)
    };
    assert_eq!(differs(&done, &euros), Some(Difference::Amount), "another currency");
    let other = Followed { provider_ref: "ch_2".to_owned(), reference: "op_9".to_owned() };
    let elsewhere = StatementLine { follows: Some(other), ..refund("re_1", 500) };
    assert_eq!(differs(&done, &elsewhere), Some(Difference::Status), "another charge");
    let failed = known(Kind::Refund, "op_2", State::Failed, None);
    assert_eq!(differs(&failed, &refund("re_1", 500)), Some(Difference::Status));
    // A void tells of the whole charge, whatever was asked.
    let voided = known(Kind::Void, "op_3", State::Succeeded, Some("vo_1"));
    assert_eq!(differs(&voided, &line(Entry::Void, "op_3", "vo_1", 900)), None);
}

#[test]
fn a_line_is_known_by_its_reference_or_by_its_name_under_the_charge() {
    let (charge, named) = (
        known(Kind::Sale, "op_1", State::Succeeded, Some("ch_1")),
        known(Kind::Refund, "op_2", State::Succeeded, Some("re_1")),
    );
    let unknown = known(Kind::Refund, "op_3", State::Unknown, None);
    let ours = Ours::of_payment(PaymentId::new(at(1)), vec![charge.clone(), named, unknown]);
    let ours = Ours {
        of_payments: HashMap::from([(
            charge.payment_id.expect("its own"),
            ours.of_payments.into_values().next().expect("one"),
        )]),
        ..ours
    };
    let about = |line: &StatementLine| match ours.of(line) {
        About::Ours(known) => known.reference.clone(),
        About::Nobody { may_be: Some(known), .. } => format!("perhaps {}", known.reference),
        About::Nobody { payment, .. } => format!("nobody's, payment known: {}", payment.is_some()),
    };
    assert_eq!(about(&line(Entry::Refund, "op_2", "re_1", 500)), "op_2");
    // What a former release of the adapter asked for has no reference.
    assert_eq!(about(&line(Entry::Refund, "", "re_1", 500)), "op_2");
    assert_eq!(about(&line(Entry::Refund, "", "re_9", 500)), "perhaps op_3");
    assert_eq!(about(&line(Entry::Refund, "", "re_9", 400)), "nobody's, payment known: true");
    // One with another's reference is nobody's of ours, whatever its amount.
    assert_eq!(about(&line(Entry::Refund, "theirs", "re_9", 500)), "nobody's, payment known: true");
    assert_eq!(about(&line(Entry::Charge, "theirs", "ch_9", 500)), "nobody's, payment known: false");
}

#[test]
fn what_lines_tell_of_is_known_by_reference_or_name() {
    let lines = [line(Entry::Refund, "op_2", "re_1", 500), line(Entry::Refund, "", "re_2", 500)];
    let is_told = told_by(&lines);
    let refund = |reference, name| known(Kind::Refund, reference, State::Succeeded, Some(name));
    assert!(is_told(&refund("op_2", "re_9")) && is_told(&refund("op_9", "re_2")));
    assert!(!is_told(&refund("op_9", "re_9")) && !is_told(&refund("", "re_9")));
}

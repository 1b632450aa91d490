//! The models to check: the tests use two workers, the program any number.

use crate::charge::properties::{FAILED_IS_FAILED, NONE_LOST, ONE_CHARGE, ONE_STANDS, REPORTED_IS_WRITTEN, VOID_HOLDS};
use crate::charge::{self, ChargeModel, Class};
use crate::refund::{self, NONE_TWICE, RefundModel, SUMS_AGREE};

/// The effect of a missing rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Symptom {
    /// A reachable state violates this property.
    Breaks(&'static str),
    /// A reachable state cannot reach a settled one.
    GetsStuck,
}

/// Charge protocols that must hold.
pub fn charges(workers: usize) -> Vec<(&'static str, ChargeModel)> {
    let of = |class| ChargeModel::new(workers, class);
    vec![
        ("class A", of(Class::Idempotent)),
        ("class A for a time", of(Class::IdempotentForATime)),
        ("class B", of(Class::Lookup)),
        ("class C", of(Class::Neither)),
        ("class A, with the statement", ChargeModel { reconciles: true, ..of(Class::Idempotent) }),
        ("class A for a time, with the statement", ChargeModel { reconciles: true, ..of(Class::IdempotentForATime) }),
        ("class B, with the statement", ChargeModel { reconciles: true, ..of(Class::Lookup) }),
        ("class B that discards refusals", discarding_refusals(workers)),
        (
            "class B without a deadline, with the statement",
            ChargeModel { reconciles: true, ..without_deadline(Class::Lookup, workers) },
        ),
        ("look-ups without refusal of repeated references", of(Class::LookupOnly)),
    ]
}

/// A provider that breaks the promise of class B: late workers can cause a second charge, which is reversed. Always two
/// workers, because a third leads to millions of states.
pub fn broken_promise() -> (&'static str, ChargeModel) {
    let model = ChargeModel { reconciles: true, ..without_deadline(Class::LookupOnly, 2) };
    ("look-ups without refusal of repeated references and without a deadline, with the statement", model)
}

/// Refund protocols that must hold.
pub fn refunds(workers: usize) -> Vec<(&'static str, RefundModel)> {
    let (with_references, plain) = (RefundModel::new(workers), RefundModel::without_references(workers));
    vec![
        ("refunds", with_references),
        ("refunds, and a report that lags", RefundModel { report_lags: true, ..with_references }),
        ("refunds, two in flight", RefundModel { one_in_flight: false, ..with_references }),
        ("refunds, two in flight, without a deadline, with the statement", refunds_without_deadline(workers)),
        ("refunds without references", plain),
        ("refunds without references, and a report that lags", RefundModel { report_lags: true, ..plain }),
    ]
}

/// Only the reference identifies a request, which may be delayed for any time.
fn refunds_without_deadline(workers: usize) -> RefundModel {
    RefundModel { one_in_flight: false, deadline: false, reconciles: true, ..RefundModel::new(workers) }
}

fn without_deadline(class: Class, workers: usize) -> ChargeModel {
    ChargeModel { deadline: false, ..ChargeModel::new(workers, class) }
}

fn discarding_refusals(workers: usize) -> ChargeModel {
    ChargeModel { discards_refusals: true, ..ChargeModel::new(workers, Class::Lookup) }
}

/// Charge models with a missing rule, and how it shows.
pub fn flawed_charges() -> Vec<(ChargeModel, Symptom)> {
    use charge::Flaw;
    let (a, b, c) = (Class::Idempotent, Class::Lookup, Class::Neither);
    let of = |class| ChargeModel::new(2, class);
    vec![
        (of(c).with_flaw(Flaw::ClaimWithoutLock), Symptom::Breaks(ONE_CHARGE)),
        (without_deadline(b, 2).with_flaw(Flaw::NewReference), Symptom::Breaks(ONE_CHARGE)),
        (of(Class::LookupOnly).with_flaw(Flaw::ResendWithoutLookUp), Symptom::Breaks(ONE_CHARGE)),
        (of(b).with_flaw(Flaw::ResendWithoutLookUp), Symptom::GetsStuck),
        (of(b).with_flaw(Flaw::TrustNotFound), Symptom::Breaks(FAILED_IS_FAILED)),
        (of(Class::LookupOnly).with_flaw(Flaw::IgnoreInFlight), Symptom::Breaks(ONE_CHARGE)),
        (of(Class::LookupOnly).with_flaw(Flaw::OneLookUp), Symptom::Breaks(ONE_CHARGE)),
        (of(Class::LookupOnly).with_flaw(Flaw::KeepLookUps), Symptom::Breaks(ONE_CHARGE)),
        (of(c).with_flaw(Flaw::ResendInClassC), Symptom::Breaks(ONE_CHARGE)),
        (of(Class::IdempotentForATime).with_flaw(Flaw::ResendForgotten), Symptom::Breaks(ONE_CHARGE)),
        // A worker that pauses for an hour between its claim and its request.
        (without_deadline(Class::IdempotentForATime, 2), Symptom::Breaks(ONE_CHARGE)),
        (of(c).with_flaw(Flaw::OutcomeByFence), Symptom::Breaks(REPORTED_IS_WRITTEN)),
        (of(a).with_flaw(Flaw::OverwriteFinal), Symptom::Breaks(FAILED_IS_FAILED)),
        (of(a).with_flaw(Flaw::OverwriteFinal), Symptom::Breaks(NONE_LOST)),
        (of(a).with_flaw(Flaw::VoidWithoutLock), Symptom::Breaks(VOID_HOLDS)),
        (of(c).with_flaw(Flaw::FailByTimer), Symptom::Breaks(FAILED_IS_FAILED)),
        (of(b).with_flaw(Flaw::RepeatIsDecline), Symptom::Breaks(FAILED_IS_FAILED)),
        (of(a).with_flaw(Flaw::NotProcessedAfterResend), Symptom::Breaks(FAILED_IS_FAILED)),
        (of(a).with_flaw(Flaw::NotProcessedUnfenced), Symptom::Breaks(FAILED_IS_FAILED)),
        (of(b).with_flaw(Flaw::NotProcessedUnfenced), Symptom::Breaks(FAILED_IS_FAILED)),
        (of(Class::LookupOnly).with_flaw(Flaw::RequeueUnfenced), Symptom::Breaks(ONE_CHARGE)),
        (discarding_refusals(2).with_flaw(Flaw::RefusalUnfenced), Symptom::Breaks(FAILED_IS_FAILED)),
        (
            ChargeModel { reconciles: true, ..without_deadline(Class::LookupOnly, 2) }
                .with_flaw(Flaw::KeepSecondCharge),
            Symptom::GetsStuck,
        ),
        (without_deadline(Class::LookupOnly, 2), Symptom::Breaks(ONE_STANDS)),
    ]
}

/// Refund models with a missing rule, and how it shows.
pub fn flawed_refunds() -> Vec<(RefundModel, Symptom)> {
    use refund::Flaw;
    let plain = RefundModel::without_references(2);
    let lagging = RefundModel { report_lags: true, ..plain };
    let reduced = [
        // Without references, the limit to one in flight and the deadline, with its clock, are necessary.
        (RefundModel { references: false, ..refunds_without_deadline(2) }, NONE_TWICE),
        (RefundModel { one_in_flight: false, ..plain }, SUMS_AGREE),
        (RefundModel { deadline: false, ..plain }, NONE_TWICE),
    ];
    let with_flaws = [
        (plain, Flaw::NotProcessedUnfenced),
        (plain, Flaw::RefusalUnfenced),
        (plain, Flaw::IgnoreInFlight),
        (lagging, Flaw::KeepLookUps),
        (plain, Flaw::ResendWithoutLookUp),
    ]
    .map(|(model, flaw)| (model.with_flaw(flaw), SUMS_AGREE));
    reduced.into_iter().chain(with_flaws).map(|(model, property)| (model, Symptom::Breaks(property))).collect()
}

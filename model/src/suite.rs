//! What is checked: by the tests with two workers, by the program with as many as it is told.

use crate::charge::properties::{FAILED_IS_FAILED, NONE_LOST, ONE_CHARGE, ONE_STANDS, TOLD_IS_WRITTEN, VOID_HOLDS};
use crate::charge::{self, Charging, Class};
use crate::refund::{self, NONE_TWICE, Refunding, SUMS_AGREE};

/// How a missing rule shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shows {
    /// A state is reached in which this does not hold.
    Breaks(&'static str),
    /// A state is reached from which no end can be.
    GetsStuck,
}

/// The protocol of a charge, which must hold.
pub fn charges(workers: usize) -> Vec<(&'static str, Charging)> {
    let of = |class| Charging::new(workers, class);
    vec![
        ("class A", of(Class::Idempotent)),
        ("class B", of(Class::Lookup)),
        ("class C", of(Class::Neither)),
        ("class A, with the statement", Charging { reconciles: true, ..of(Class::Idempotent) }),
        ("class B, with the statement", Charging { reconciles: true, ..of(Class::Lookup) }),
        ("class B that forgets what it refused", forgetful(workers)),
        (
            "class B without a deadline, with the statement",
            Charging { reconciles: true, ..endless(Class::Lookup, workers) },
        ),
        ("look-up without refusal of repeats", of(Class::LookupOnly)),
    ]
}

/// A provider that breaks its promise, and late workers: two charges can be had, and are reversed. With a third worker there
/// would be millions of states.
pub fn broken_promise() -> (&'static str, Charging) {
    let model = Charging { reconciles: true, ..endless(Class::LookupOnly, 2) };
    ("look-up without refusal of repeats and without a deadline, with the statement", model)
}

/// The protocol of refunds, which must hold.
pub fn refunds(workers: usize) -> Vec<(&'static str, Refunding)> {
    let (referred, plain) = (Refunding::new(workers), Refunding::without_references(workers));
    vec![
        ("refunds", referred),
        ("refunds, and a report that lags", Refunding { lags: true, ..referred }),
        ("refunds, two in flight", Refunding { one_in_flight: false, ..referred }),
        ("refunds, two in flight, without a deadline, with the statement", endless_refunds(workers)),
        ("refunds without a reference", plain),
        ("refunds without a reference, and a report that lags", Refunding { lags: true, ..plain }),
    ]
}

/// Nothing but the reference keeps requests apart that are held up for as long as they like.
fn endless_refunds(workers: usize) -> Refunding {
    Refunding { one_in_flight: false, deadline: false, reconciles: true, ..Refunding::new(workers) }
}

fn endless(class: Class, workers: usize) -> Charging {
    Charging { deadline: false, ..Charging::new(workers, class) }
}

fn forgetful(workers: usize) -> Charging {
    Charging { forgets: true, ..Charging::new(workers, Class::Lookup) }
}

/// A charge without one of its rules, with two workers.
pub fn flawed_charges() -> Vec<(Charging, Shows)> {
    use charge::Flaw;
    let (a, b, c) = (Class::Idempotent, Class::Lookup, Class::Neither);
    let of = |class| Charging::new(2, class);
    vec![
        (of(c).without(Flaw::ClaimWithoutLock), Shows::Breaks(ONE_CHARGE)),
        (endless(b, 2).without(Flaw::NewReference), Shows::Breaks(ONE_CHARGE)),
        (of(Class::LookupOnly).without(Flaw::ResendUnasked), Shows::Breaks(ONE_CHARGE)),
        (of(b).without(Flaw::ResendUnasked), Shows::GetsStuck),
        (of(b).without(Flaw::BelieveNotFound), Shows::Breaks(FAILED_IS_FAILED)),
        (of(Class::LookupOnly).without(Flaw::IgnoreInFlight), Shows::Breaks(ONE_CHARGE)),
        (of(Class::LookupOnly).without(Flaw::OneLookUp), Shows::Breaks(ONE_CHARGE)),
        (of(Class::LookupOnly).without(Flaw::KeepLookUps), Shows::Breaks(ONE_CHARGE)),
        (of(c).without(Flaw::ResendInC), Shows::Breaks(ONE_CHARGE)),
        (of(c).without(Flaw::OutcomeByFence), Shows::Breaks(TOLD_IS_WRITTEN)),
        (of(a).without(Flaw::OverwriteFinal), Shows::Breaks(FAILED_IS_FAILED)),
        (of(a).without(Flaw::OverwriteFinal), Shows::Breaks(NONE_LOST)),
        (of(a).without(Flaw::VoidWithoutLock), Shows::Breaks(VOID_HOLDS)),
        (of(c).without(Flaw::FailByTimer), Shows::Breaks(FAILED_IS_FAILED)),
        (of(b).without(Flaw::RepeatIsDecline), Shows::Breaks(FAILED_IS_FAILED)),
        (of(a).without(Flaw::NotProcessedAfterAll), Shows::Breaks(FAILED_IS_FAILED)),
        (of(a).without(Flaw::NotProcessedUnfenced), Shows::Breaks(FAILED_IS_FAILED)),
        (of(b).without(Flaw::NotProcessedUnfenced), Shows::Breaks(FAILED_IS_FAILED)),
        (of(Class::LookupOnly).without(Flaw::PutBackUnfenced), Shows::Breaks(ONE_CHARGE)),
        (forgetful(2).without(Flaw::RefusalUnfenced), Shows::Breaks(FAILED_IS_FAILED)),
        (
            Charging { reconciles: true, ..endless(Class::LookupOnly, 2) }.without(Flaw::KeepSecondCharge),
            Shows::GetsStuck,
        ),
        (endless(Class::LookupOnly, 2), Shows::Breaks(ONE_STANDS)),
    ]
}

/// Refunds without one of their rules, with two workers.
pub fn flawed_refunds() -> Vec<(Refunding, Shows)> {
    use refund::Flaw;
    let plain = Refunding::without_references(2);
    let lagging = Refunding { lags: true, ..plain };
    let left_out = [
        // The same without the reference: one in flight and the deadline are needed then, and so is their clock.
        (Refunding { references: false, ..endless_refunds(2) }, NONE_TWICE),
        (Refunding { one_in_flight: false, ..plain }, SUMS_AGREE),
        (Refunding { deadline: false, ..plain }, NONE_TWICE),
    ];
    let flawed = [
        (plain, Flaw::NotProcessedUnfenced),
        (plain, Flaw::RefusalUnfenced),
        (plain, Flaw::IgnoreInFlight),
        (lagging, Flaw::KeepLookUps),
        (plain, Flaw::ResendUnasked),
    ]
    .map(|(model, flaw)| (model.without(flaw), SUMS_AGREE));
    left_out.into_iter().chain(flawed).map(|(model, property)| (model, Shows::Breaks(property))).collect()
}

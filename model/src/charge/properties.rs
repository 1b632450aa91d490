//! The properties that must always hold, and examples that must be reachable for them to mean anything.

use stateright::Property;

use super::{ChargeModel, ChargeStatus, Class, Invoice, Request, Response, State, Step, UnknownReason, Worker};
use crate::liveness::Liveness;
use crate::row::State as RowState;

/// Never more than one approval.
pub const ONE_CHARGE: &str = "at most one charge is approved";
/// After reversals, when everything is settled.
pub const ONE_STANDS: &str = "in settled states at most one charge remains approved";
/// No approval behind a failed or declined operation.
pub const FAILED_IS_FAILED: &str = "a failed or declined operation has no approved charge";
/// No approval is lost.
pub const NONE_LOST: &str = "in settled states every approval is recorded";
/// Also if the worker is late.
pub const REPORTED_IS_WRITTEN: &str = "an approval that a worker has received is recorded";
/// An acknowledged void is final.
pub const VOID_HOLDS: &str = "nothing is charged after an acknowledged void";

impl ChargeModel {
    /// Without a deadline the provider may book a late worker's request after the operation has ended; it is found and
    /// reversed.
    fn may_charge_late(&self) -> bool {
        self.class.looks_up() && !self.deadline
    }

    pub(super) fn all_properties(&self) -> Vec<Property<Self>> {
        let mut all = vec![
            Property::always(ONE_STANDS, |model: &Self, state: &State| {
                !model.is_settled(state) || count(state, ChargeStatus::Approved) <= 1
            }),
            Property::always(NONE_LOST, |model: &Self, state: &State| !model.is_settled(state) || is_known(state)),
            Property::always(REPORTED_IS_WRITTEN, |_, state: &State| reported_is_written(state)),
        ];
        // A provider that refuses repeated references charges once, however late a request arrives.
        let may_charge_twice = self.may_charge_late() && !self.class.knows_repeats();
        if !may_charge_twice {
            all.push(Property::always(ONE_CHARGE, |_, state: &State| approvals(state) <= 1));
        }
        if may_charge_twice {
            all.push(Property::sometimes("a second charge was reversed", |_, state: &State| {
                count(state, ChargeStatus::Reversed) > 0
            }));
        } else {
            all.extend([
                Property::always(FAILED_IS_FAILED, |_, state: &State| {
                    !matches!(state.row.state, RowState::Failed | RowState::Declined) || approvals(state) == 0
                }),
                Property::always(VOID_HOLDS, |_, state: &State| state.invoice != Invoice::ChargedAfterVoid),
            ]);
        }
        all.extend(reached_by_all_classes());
        all.extend(reached_by_late_workers());
        all.extend(match self.class {
            Class::Idempotent => reached_in_class_a(),
            Class::IdempotentForATime => reached_when_forgotten(),
            Class::Lookup => reached_in_class_b(self.deadline),
            Class::LookupOnly => reached_by_look_ups(),
            Class::Neither => reached_in_class_c(),
        });
        all
    }
}

/// Faults and outcomes that are possible with every provider.
fn reached_by_all_classes() -> Vec<Property<ChargeModel>> {
    vec![
        Property::sometimes("charged, and the response lost", |_, state: &State| {
            count(state, ChargeStatus::Approved) > 0 && state.row.state.is_open() && !any_step(state, knows_approval)
        }),
        Property::sometimes("a worker crashed while its lease is valid", |_, state: &State| {
            state.row.leased && !state.workers.iter().any(|worker| worker.fenced)
        }),
        Property::sometimes("an id was lost", |_, state: &State| state.row.state == RowState::Ready && state.ids == 0),
        Property::sometimes("an unprocessed operation is requeued", |_, state: &State| {
            state.workers.iter().any(|worker| worker.fenced && requeues(worker))
        }),
        Property::sometimes("a late worker requeues an operation", |_, state: &State| {
            state.workers.iter().any(|worker| !worker.fenced && requeues(worker)) && state.row.state.is_open()
        }),
        Property::sometimes("an id was delivered twice", |_, state: &State| state.ids > 1),
        Property::sometimes("it succeeded", |_, state: &State| matches!(state.row.state, RowState::Succeeded(_))),
        Property::sometimes("it was declined", |_, state: &State| state.row.state == RowState::Declined),
        Property::sometimes("it was not processed", |_, state: &State| state.row.state == RowState::Failed),
        Property::sometimes("the invoice was voided before the operation", |_, state: &State| {
            state.invoice == Invoice::Voided && state.row.state == RowState::Absent
        }),
        Property::sometimes("the invoice was voided after a decline", |_, state: &State| {
            state.invoice == Invoice::Voided && state.row.state == RowState::Declined
        }),
    ]
}

/// Actions of workers that were paused beyond their lease.
fn reached_by_late_workers() -> Vec<Property<ChargeModel>> {
    vec![
        Property::sometimes("a late worker sends", |_, state: &State| {
            let late = |step| matches!(step, Step::Waiting(Request { resend: false, .. }, _));
            state.workers.iter().any(|worker| !worker.fenced && late(worker.step))
        }),
        Property::sometimes("a late worker has an approval", |_, state: &State| {
            let has_approval = state.workers.iter().any(|worker| !worker.fenced && knows_approval(worker.step));
            has_approval && state.row.state.is_open()
        }),
        Property::sometimes("a late worker's request was not processed", |_, state: &State| {
            let late = |step| step == Step::Recording(Response::NotProcessed);
            state.workers.iter().any(|worker| !worker.fenced && late(worker.step)) && state.row.state.is_open()
        }),
    ]
}

fn reached_in_class_a() -> Vec<Property<ChargeModel>> {
    vec![Property::sometimes("sent again while the first request is in flight", |_, state: &State| {
        state.abandoned[0] > 0 && any_step(state, |step| matches!(step, Step::Waiting(Request { resend: true, .. }, _)))
    })]
}

fn reached_by_look_ups() -> Vec<Property<ChargeModel>> {
    vec![
        Property::sometimes("not found, and in flight", |_, state: &State| {
            state.abandoned[0] > 0
                && any_step(state, |step| step == Step::LeavingUnknown(UnknownReason::MayStillArrive))
        }),
        Property::sometimes("not found, and charged", |_, state: &State| {
            approvals(state) > 0 && any_step(state, |step| step == Step::LeavingUnknown(UnknownReason::NotFound))
        }),
        Property::sometimes("the cardholder is challenged", |_, state: &State| {
            any_step(state, |step| step == Step::LeavingUnknown(UnknownReason::Pending))
        }),
        Property::sometimes("sent again after two look-ups", |_, state: &State| {
            any_step(state, |step| matches!(step, Step::ReadyToSend(Request { resend: true, .. })))
        }),
    ]
}

fn reached_in_class_b(deadline: bool) -> Vec<Property<ChargeModel>> {
    let mut all = reached_by_look_ups();
    all.push(Property::sometimes("a repeated reference was refused", |_, state: &State| {
        any_step(state, |step| step == Step::LeavingUnknown(UnknownReason::RepeatedReference))
    }));
    if deadline {
        all.push(Property::sometimes("a late request has expired", |_, state: &State| {
            any_step(state, |step| matches!(step, Step::Waiting(Request { expired: true, .. }, _)))
        }));
    }
    all
}

fn reached_when_forgotten() -> Vec<Property<ChargeModel>> {
    let mut all = reached_in_class_a();
    all.extend(reached_in_class_c());
    all.extend([
        Property::sometimes("found although the reference is forgotten", |_, state: &State| {
            state.forgotten && any_step(state, knows_approval)
        }),
        Property::sometimes("not found, and charged", |_, state: &State| {
            approvals(state) > 0 && any_step(state, |step| step == Step::LeavingUnknown(UnknownReason::NotFound))
        }),
    ]);
    all
}

fn reached_in_class_c() -> Vec<Property<ChargeModel>> {
    vec![
        Property::sometimes("in manual review, and charged", |_, state: &State| {
            state.row.manual_review && approvals(state) > 0
        }),
        Property::sometimes("in manual review, and not charged", |model: &ChargeModel, state: &State| {
            model.is_settled(state) && state.row.manual_review && approvals(state) == 0
        }),
    ]
}

fn requeues(worker: &Worker) -> bool {
    worker.step == Step::LeavingUnknown(UnknownReason::NotProcessed)
}

fn any_step(state: &State, matches: impl Fn(Step) -> bool) -> bool {
    state.workers.iter().any(|worker| matches(worker.step))
}

fn knows_approval(step: Step) -> bool {
    matches!(step, Step::Recording(Response::Approved(_)))
}

fn count(state: &State, status: ChargeStatus) -> usize {
    state.charges.iter().filter(|charge| charge.status == status).count()
}

/// Charges that were approved at any time.
fn approvals(state: &State) -> usize {
    count(state, ChargeStatus::Approved) + count(state, ChargeStatus::Reversed)
}

/// Every approved charge is recorded, or the operation is in manual review.
fn is_known(state: &State) -> bool {
    let mut charges = state.charges.iter().enumerate();
    charges.all(|(at, charge)| charge.status != ChargeStatus::Approved || state.has(at) || state.row.manual_review)
}

fn reported_is_written(state: &State) -> bool {
    let mut charges = state.charges.iter().enumerate();
    charges.all(|(at, charge)| !charge.reported || charge.unwanted || state.has(at))
}

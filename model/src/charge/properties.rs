//! What must always hold, and what must happen sometimes for that to mean anything.

use stateright::Property;

use super::{Answer, Charging, Class, Parent, Sending, Standing, State, Step, Why, Worker};
use crate::ends::Ends;
use crate::row::State as RowState;

/// No second charge is ever approved.
pub const ONE_CHARGE: &str = "one charge at most is approved";
/// In the end one charge at most stands.
pub const ONE_STANDS: &str = "in the end one charge at most stands";
/// A failure is no approval.
pub const FAILED_IS_FAILED: &str = "what failed or was declined was not approved";
/// In the end the books know.
pub const NONE_LOST: &str = "in the end the books know every approval";
/// A late worker's known result is a fact.
pub const TOLD_IS_WRITTEN: &str = "an approval that a worker was told of is written";
/// A void holds.
pub const VOID_HOLDS: &str = "nothing is charged after an acknowledged void";

impl Charging {
    /// Without a deadline a late worker's request may be entered after the operation has ended: it is seen, and reversed.
    fn may_come_too_late(&self) -> bool {
        self.class.looks_up() && !self.deadline
    }

    pub(super) fn all_properties(&self) -> Vec<Property<Self>> {
        let mut all = vec![
            Property::always(ONE_STANDS, |model: &Self, state: &State| {
                !model.is_settled(state) || count(state, Standing::Approved) <= 1
            }),
            Property::always(NONE_LOST, |model: &Self, state: &State| !model.is_settled(state) || known(state)),
            Property::always(TOLD_IS_WRITTEN, |_, state: &State| told_is_written(state)),
        ];
        // A provider that refuses repeats charges once however late a request comes, and nothing fails while one may.
        let is_charged_twice = self.may_come_too_late() && !self.class.knows_repeats();
        if !is_charged_twice {
            all.push(Property::always(ONE_CHARGE, |_, state: &State| approvals(state) <= 1));
        }
        if is_charged_twice {
            all.push(Property::sometimes("what nobody wants was reversed", |_, state: &State| {
                count(state, Standing::Reversed) > 0
            }));
        } else {
            all.extend([
                Property::always(FAILED_IS_FAILED, |_, state: &State| {
                    !matches!(state.row.state, RowState::Failed | RowState::Declined) || approvals(state) == 0
                }),
                Property::always(VOID_HOLDS, |_, state: &State| state.parent != Parent::ChargedAfterVoid),
            ]);
        }
        all.extend(happens_everywhere());
        all.extend(happens_late());
        all.extend(match self.class {
            Class::Idempotent => happens_in_a(),
            Class::Lookup => happens_in_b(self.deadline),
            Class::LookupOnly => happens_by_look_up(),
            Class::Neither => happens_in_c(),
        });
        all
    }
}

/// Faults and ends that every provider sees.
fn happens_everywhere() -> Vec<Property<Charging>> {
    vec![
        Property::sometimes("charged, and the answer lost", |_, state: &State| {
            count(state, Standing::Approved) > 0 && state.row.state.is_open() && !holds(state, knows)
        }),
        Property::sometimes("a worker died, and its lease holds", |_, state: &State| {
            state.row.leased && !state.workers.iter().any(|worker| worker.fenced)
        }),
        Property::sometimes("an id was lost", |_, state: &State| state.row.state == RowState::Ready && state.ids == 0),
        Property::sometimes("what was not processed is put back", |_, state: &State| {
            let back = |worker: &Worker| worker.fenced && worker.step == Step::Leaving(Why::NotProcessed);
            state.workers.iter().any(back)
        }),
        Property::sometimes("a late worker puts back", |_, state: &State| {
            let back = |worker: &Worker| !worker.fenced && worker.step == Step::Leaving(Why::NotProcessed);
            state.workers.iter().any(back) && state.row.state.is_open()
        }),
        Property::sometimes("an id came twice", |_, state: &State| state.ids > 1),
        Property::sometimes("it succeeded", |_, state: &State| matches!(state.row.state, RowState::Succeeded(_))),
        Property::sometimes("it was declined", |_, state: &State| state.row.state == RowState::Declined),
        Property::sometimes("it was not processed", |_, state: &State| state.row.state == RowState::Failed),
        Property::sometimes("the invoice was voided before", |_, state: &State| {
            state.parent == Parent::Voided && state.row.state == RowState::Absent
        }),
        Property::sometimes("the invoice was voided after a decline", |_, state: &State| {
            state.parent == Parent::Voided && state.row.state == RowState::Declined
        }),
    ]
}

/// What a worker does that was paused beyond its lease.
fn happens_late() -> Vec<Property<Charging>> {
    vec![
        Property::sometimes("a late worker sends", |_, state: &State| {
            let late = |step| matches!(step, Step::Waiting(Sending { again: false, .. }, _));
            state.workers.iter().any(|worker| !worker.fenced && late(worker.step))
        }),
        Property::sometimes("a late worker brings an approval", |_, state: &State| {
            let brings = state.workers.iter().any(|worker| !worker.fenced && knows(worker.step));
            brings && state.row.state.is_open()
        }),
        Property::sometimes("a late worker was not processed", |_, state: &State| {
            let late = |step| step == Step::Answered(Answer::NotProcessed);
            state.workers.iter().any(|worker| !worker.fenced && late(worker.step)) && state.row.state.is_open()
        }),
    ]
}

fn happens_in_a() -> Vec<Property<Charging>> {
    vec![Property::sometimes("sent again while the first is in flight", |_, state: &State| {
        state.strays[0] > 0 && holds(state, |step| matches!(step, Step::Waiting(Sending { again: true, .. }, _)))
    })]
}

fn happens_by_look_up() -> Vec<Property<Charging>> {
    vec![
        Property::sometimes("not found, and in flight", |_, state: &State| {
            state.strays[0] > 0 && holds(state, |step| step == Step::Leaving(Why::MayArrive))
        }),
        Property::sometimes("not found, and charged", |_, state: &State| {
            approvals(state) > 0 && holds(state, |step| step == Step::Leaving(Why::FoundNothing))
        }),
        Property::sometimes("a cardholder is asked", |_, state: &State| {
            holds(state, |step| step == Step::Leaving(Why::Pending))
        }),
        Property::sometimes("sent again after two look-ups", |_, state: &State| {
            holds(state, |step| matches!(step, Step::Armed(Sending { again: true, .. })))
        }),
    ]
}

fn happens_in_b(deadline: bool) -> Vec<Property<Charging>> {
    let mut all = happens_by_look_up();
    all.push(Property::sometimes("a repeated reference was refused", |_, state: &State| {
        holds(state, |step| step == Step::Leaving(Why::Repeated))
    }));
    if deadline {
        all.push(Property::sometimes("a late request is turned away", |_, state: &State| {
            holds(state, |step| matches!(step, Step::Waiting(Sending { expired: true, .. }, _)))
        }));
    }
    all
}

fn happens_in_c() -> Vec<Property<Charging>> {
    vec![
        Property::sometimes("a person is awaited, and it was charged", |_, state: &State| {
            state.row.for_a_person && approvals(state) > 0
        }),
        Property::sometimes("a person is awaited, and nothing was charged", |model: &Charging, state: &State| {
            model.is_settled(state) && state.row.for_a_person && approvals(state) == 0
        }),
    ]
}

fn holds(state: &State, what: impl Fn(Step) -> bool) -> bool {
    state.workers.iter().any(|worker| what(worker.step))
}

fn knows(step: Step) -> bool {
    matches!(step, Step::Answered(Answer::Approved(_)))
}

fn count(state: &State, standing: Standing) -> usize {
    state.charges.iter().filter(|charge| charge.standing == standing).count()
}

/// Charges that were ever approved.
fn approvals(state: &State) -> usize {
    count(state, Standing::Approved) + count(state, Standing::Reversed)
}

/// The payment has the charge that stands, or a person is awaited who will ask.
fn known(state: &State) -> bool {
    let mut charges = state.charges.iter().enumerate();
    charges.all(|(at, charge)| charge.standing != Standing::Approved || state.has(at) || state.row.for_a_person)
}

fn told_is_written(state: &State) -> bool {
    let mut charges = state.charges.iter().enumerate();
    charges.all(|(at, charge)| !charge.told || charge.unwanted || state.has(at))
}

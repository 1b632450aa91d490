//! Which steps are possible.

use super::{Action, Charging, Flaw, IDS, Parent, Sending, Standing, State, Step};
use crate::row::State as RowState;

impl Charging {
    pub(super) fn possible(&self, state: &State, actions: &mut Vec<Action>) {
        self.of_the_merchant(state, actions);
        of_the_queue(state, actions);
        for (at, worker) in state.workers.iter().enumerate() {
            self.of_a_worker(state, at, worker.step, actions);
        }
        self.of_the_network(state, actions);
        self.of_time(state, actions);
        self.of_the_books(state, actions);
    }

    fn of_the_merchant(&self, state: &State, actions: &mut Vec<Action>) {
        let nothing_under_way = !state.row.state.is_open();
        match state.parent {
            Parent::Owed | Parent::Looked if state.row.state == RowState::Absent => actions.push(Action::Begin),
            Parent::Owed | Parent::Looked | Parent::Voided | Parent::ChargedAfterVoid => {}
        }
        match state.parent {
            Parent::Owed if nothing_under_way && self.lacks(Flaw::VoidWithoutLock) => {
                actions.push(Action::LookAtInvoice)
            }
            Parent::Owed if nothing_under_way => actions.push(Action::Void),
            Parent::Looked => actions.push(Action::Void),
            Parent::Owed | Parent::Voided | Parent::ChargedAfterVoid => {}
        }
    }

    fn of_a_worker(&self, state: &State, at: usize, step: Step, actions: &mut Vec<Action>) {
        match step {
            Step::Idle if state.ids > 0 => actions.push(Action::Claim(at)),
            Step::Idle => {}
            Step::LookingUp(_) | Step::Doubting(_) => {
                actions.push(Action::LookUp { worker: at, missed: false });
                if self.may_miss(state) {
                    actions.push(Action::LookUp { worker: at, missed: true });
                }
            }
            Step::SendingAgain => actions.push(Action::SendAgain(at)),
            // So many requests may be in flight at once, and no more.
            Step::Armed(_) if in_flight(state) <= self.workers => actions.push(Action::Send(at)),
            Step::Armed(_) => {}
            Step::Waiting(sending, reference) => self.of_a_request(state, at, sending, reference, actions),
            Step::Answered(_) => actions.push(Action::Record(at)),
            Step::Leaving(_) => actions.push(Action::LeaveUnknown(at)),
        }
        if step != Step::Idle {
            actions.push(Action::Crash(at));
        }
    }

    fn of_a_request(&self, state: &State, worker: usize, sending: Sending, reference: u8, actions: &mut Vec<Action>) {
        // What has expired is turned away, if it arrives.
        let decisions = if sending.expired { &[] } else { self.decisions(state, reference) };
        for &decision in decisions {
            actions.extend([true, false].map(|heard| Action::Deliver { worker, decision, heard }));
        }
        actions.extend([Action::LoseRequest(worker), Action::TurnAway(worker), Action::TurnAwayForNow(worker)]);
        actions.push(Action::TimeOut(worker));
    }

    fn of_the_network(&self, state: &State, actions: &mut Vec<Action>) {
        for reference in [0, 1] {
            if state.strays[usize::from(reference)] > 0 {
                let decisions = self.decisions(state, reference).iter();
                actions.extend(decisions.map(|&decision| Action::DeliverStray { reference, decision }));
                actions.push(Action::LoseStray(reference));
            }
        }
    }

    fn of_time(&self, state: &State, actions: &mut Vec<Action>) {
        if state.row.leased {
            actions.push(Action::LeaseEnds);
        }
        if state.row.state.was_sent() && !state.row.dead && in_flight(state) == 0 {
            actions.push(Action::RequestsDie);
        }
        if self.lacks(Flaw::FailByTimer) && state.row.state == RowState::Unknown {
            actions.push(Action::GiveUp);
        }
    }

    fn of_the_books(&self, state: &State, actions: &mut Vec<Action>) {
        for (at, charge) in state.charges.iter().enumerate() {
            match charge.standing {
                Standing::Pending => {
                    actions.extend([true, false].map(|approved| Action::Decide { charge: at, approved }));
                }
                Standing::Approved if charge.unwanted => actions.push(Action::Reverse(at)),
                Standing::Approved if self.reads_statement() && !state.has(at) => {
                    actions.push(Action::Reconcile(at));
                }
                Standing::Approved | Standing::Declined | Standing::Reversed => {}
            }
        }
    }
}

fn of_the_queue(state: &State, actions: &mut Vec<Action>) {
    let written = state.row.state != RowState::Absent;
    if state.ids == 0 && state.row.state.is_open() && !state.row.for_a_person {
        actions.push(Action::Sweep);
    }
    if written && state.ids < IDS {
        actions.push(Action::Duplicate);
    }
    if state.ids > 0 {
        actions.push(Action::LoseId);
    }
}

/// Requests that may still be acted on.
pub(super) fn in_flight(state: &State) -> usize {
    let may_act = |step| matches!(step, Step::Waiting(Sending { expired: false, .. }, _));
    let waited_for = state.workers.iter().filter(|worker| may_act(worker.step)).count();
    waited_for + state.strays.iter().map(|&strays| usize::from(strays)).sum::<usize>()
}

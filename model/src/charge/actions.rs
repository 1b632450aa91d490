//! The actions that are possible in a state.

use super::{Action, ChargeModel, ChargeStatus, Class, Flaw, Invoice, MAX_IDS, Request, State, Step};
use crate::row::State as RowState;

impl ChargeModel {
    pub(super) fn possible_actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.merchant_actions(state, actions);
        queue_actions(state, actions);
        for (at, worker) in state.workers.iter().enumerate() {
            self.worker_actions(state, at, worker.step, actions);
        }
        self.network_actions(state, actions);
        self.time_actions(state, actions);
        self.provider_actions(state, actions);
    }

    fn merchant_actions(&self, state: &State, actions: &mut Vec<Action>) {
        let has_no_open_operation = !state.row.state.is_open();
        match state.invoice {
            Invoice::Open | Invoice::CheckedUnlocked if state.row.state == RowState::Absent => {
                actions.push(Action::Begin)
            }
            Invoice::Open | Invoice::CheckedUnlocked | Invoice::Voided | Invoice::ChargedAfterVoid => {}
        }
        match state.invoice {
            Invoice::Open if has_no_open_operation && self.has_flaw(Flaw::VoidWithoutLock) => {
                actions.push(Action::CheckUnlocked)
            }
            Invoice::Open if has_no_open_operation => actions.push(Action::Void),
            Invoice::CheckedUnlocked => actions.push(Action::Void),
            Invoice::Open | Invoice::Voided | Invoice::ChargedAfterVoid => {}
        }
    }

    fn worker_actions(&self, state: &State, at: usize, step: Step, actions: &mut Vec<Action>) {
        match step {
            Step::Idle if state.ids > 0 => actions.push(Action::Claim(at)),
            Step::Idle => {}
            Step::LookingUp(_) | Step::ConfirmingRefusal(_) => {
                actions.push(Action::LookUp { worker: at, missed: false });
                if self.may_miss(state) {
                    actions.push(Action::LookUp { worker: at, missed: true });
                }
            }
            Step::SendingAgain => actions.push(Action::SendAgain(at)),
            // Bounds the number of requests in flight, and with it the number of states.
            Step::ReadyToSend(_) if in_flight(state) <= self.workers => actions.push(Action::Send(at)),
            Step::ReadyToSend(_) => {}
            Step::Waiting(request, reference) => self.request_actions(state, at, request, reference, actions),
            Step::Recording(_) => actions.push(Action::Record(at)),
            Step::LeavingUnknown(_) => actions.push(Action::LeaveUnknown(at)),
        }
        if step != Step::Idle {
            actions.push(Action::Crash(at));
        }
    }

    fn request_actions(
        &self,
        state: &State,
        worker: usize,
        request: Request,
        reference: u8,
        actions: &mut Vec<Action>,
    ) {
        // The provider does not process expired requests.
        let decisions = if request.expired { &[] } else { self.decisions(state, reference) };
        for &decision in decisions {
            actions.extend([true, false].map(|received| Action::Deliver { worker, decision, received }));
        }
        actions.extend([
            Action::LoseRequest(worker),
            Action::NotProcessed(worker),
            Action::NotProcessedInBackground(worker),
        ]);
        actions.push(Action::TimeOut(worker));
    }

    fn network_actions(&self, state: &State, actions: &mut Vec<Action>) {
        for reference in [0, 1] {
            if state.abandoned[usize::from(reference)] > 0 {
                let decisions = self.decisions(state, reference).iter();
                actions.extend(decisions.map(|&decision| Action::DeliverAbandoned { reference, decision }));
                actions.push(Action::LoseAbandoned(reference));
            }
        }
    }

    fn time_actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.row.leased {
            actions.push(Action::LeaseExpires);
        }
        if state.row.state.was_sent() && !state.row.requests_expired && in_flight(state) == 0 {
            actions.push(Action::RequestsExpire);
        }
        if self.class == Class::IdempotentForATime {
            if state.row.state.was_sent() && !state.old {
                actions.push(Action::Ages);
            }
            if state.old && !state.forgotten && (!self.deadline || !may_send(state)) {
                actions.push(Action::Forgets);
            }
        }
        if self.has_flaw(Flaw::FailByTimer) && state.row.state == RowState::Unknown {
            actions.push(Action::FailByTimer);
        }
    }

    fn provider_actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (at, charge) in state.charges.iter().enumerate() {
            match charge.status {
                ChargeStatus::Pending => {
                    actions.extend([true, false].map(|approved| Action::Decide { charge: at, approved }));
                }
                ChargeStatus::Approved if charge.unwanted => actions.push(Action::Reverse(at)),
                ChargeStatus::Approved if self.reads_statement() && !state.has(at) => {
                    actions.push(Action::Reconcile(at));
                }
                ChargeStatus::Approved | ChargeStatus::Declined | ChargeStatus::Reversed => {}
            }
        }
    }
}

fn queue_actions(state: &State, actions: &mut Vec<Action>) {
    let written = state.row.state != RowState::Absent;
    if state.ids == 0 && state.row.state.is_open() && !state.row.manual_review {
        actions.push(Action::Sweep);
    }
    if written && state.ids < MAX_IDS {
        actions.push(Action::Duplicate);
    }
    if state.ids > 0 {
        actions.push(Action::LoseId);
    }
}

/// Whether a request from before may still be sent or processed.
fn may_send(state: &State) -> bool {
    let sends = |step| matches!(step, Step::SendingAgain | Step::ReadyToSend(_) | Step::Waiting(..));
    in_flight(state) > 0 || state.workers.iter().any(|worker| sends(worker.step))
}

/// The number of requests that may still be processed.
pub(super) fn in_flight(state: &State) -> usize {
    let is_waiting = |step| matches!(step, Step::Waiting(Request { expired: false, .. }, _));
    let waiting = state.workers.iter().filter(|worker| is_waiting(worker.step)).count();
    waiting + state.abandoned.iter().map(|&abandoned| usize::from(abandoned)).sum::<usize>()
}

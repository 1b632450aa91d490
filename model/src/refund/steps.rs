//! The possible actions, and their effects.

use super::{Action, Child, Flaw, REQUIRED_LOOK_UPS, RefundModel, Request, State, Step, Worker};
use crate::row::{Claim, State as RowState};

pub(super) const IDLE: Worker = Worker { operation: 0, fenced: false, step: Step::Idle };

impl RefundModel {
    pub(super) fn possible_actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (at, worker) in state.workers.iter().enumerate() {
            self.worker_actions(state, at, *worker, actions);
        }
        for operation in 0..2 {
            if state.abandoned[operation] > 0 {
                actions.extend([Action::DeliverAbandoned(operation), Action::LoseAbandoned(operation)]);
            }
            let row = state.rows[operation];
            if row.leased {
                actions.push(Action::LeaseExpires(operation));
            }
            // Without a deadline this is only an assumption.
            if row.state.was_sent() && !row.requests_expired && (!self.deadline || in_flight(state, operation) == 0) {
                actions.push(Action::RequestsExpire(operation));
            }
        }
        if self.reconciles {
            let differs =
                |&child: &usize| !is_known(state, child) && !is_under_way(state, state.children[child].operation);
            actions.extend((0..state.children.len()).filter(differs).map(Action::Reconcile));
        }
    }

    fn worker_actions(&self, state: &State, at: usize, worker: Worker, actions: &mut Vec<Action>) {
        match worker.step {
            Step::Idle => {
                let may_claim =
                    |&operation: &usize| self.index_permits(state, operation) && claimable(state, operation);
                actions.extend((0..2).filter(may_claim).map(|operation| Action::Claim { worker: at, operation }));
            }
            Step::LookingUp(_, recorded) | Step::ConfirmingRefusal(recorded) => {
                actions.push(Action::LookUp { worker: at, missed: false });
                let found = self.find(state, worker.operation, recorded);
                if found.is_some_and(|child| state.children[usize::from(child)].may_be_missed) {
                    actions.push(Action::LookUp { worker: at, missed: true });
                }
            }
            Step::SendingAgain => actions.push(Action::SendAgain(at)),
            Step::ReadyToSend(_) if in_flight(state, worker.operation) <= self.workers => {
                actions.push(Action::Send(at))
            }
            Step::ReadyToSend(_) => {}
            Step::Waiting(request) => {
                // The provider does not process expired requests.
                for received in [true, false].into_iter().filter(|_| !request.expired) {
                    actions.extend([true, false].map(|executed| Action::Deliver { worker: at, executed, received }));
                }
                actions.extend([Action::LoseRequest(at), Action::NotProcessed(at), Action::TimeOut(at)]);
            }
            Step::Done(_) | Step::NotProcessed | Step::Refused | Step::LeavingUnknown(_) => {
                actions.push(Action::Write(at))
            }
        }
        if worker.step != Step::Idle {
            actions.push(Action::Crash(at));
        }
    }

    /// The unique index `operations_one_in_flight`.
    fn index_permits(&self, state: &State, operation: usize) -> bool {
        !self.one_in_flight || !state.rows[1 - operation].state.was_sent()
    }

    pub(super) fn apply(&self, state: &mut State, action: Action) {
        match action {
            Action::Claim { worker, operation } => self.claim(state, worker, operation),
            Action::LookUp { worker, missed } => self.look_up(state, worker, missed),
            Action::SendAgain(at) => self.send_again(state, at),
            Action::Send(at) => {
                let Step::ReadyToSend(request) = state.workers[at].step else { return };
                state.workers[at].step = Step::Waiting(request);
            }
            Action::Deliver { worker, executed, received } => {
                let operation = state.workers[worker].operation;
                let is_repeated = self.is_repeated(state, operation);
                let child = if executed { self.receive(state, operation) } else { None };
                state.workers[worker].step = match child {
                    _ if !received => Step::LeavingUnknown(false),
                    Some(child) => Step::Done(child),
                    // A repeated reference leads to a look-up and never counts as a refusal.
                    None if is_repeated => Step::LeavingUnknown(false),
                    None => refusal_step(state, worker, Step::Refused),
                };
            }
            Action::LoseRequest(at) => state.workers[at].step = Step::LeavingUnknown(false),
            Action::NotProcessed(at) => {
                let resend = matches!(state.workers[at].step, Step::Waiting(Request { resend: true, .. }));
                state.workers[at].step = if resend { Step::LeavingUnknown(false) } else { Step::NotProcessed };
            }
            Action::TimeOut(at) => {
                abandon(state, at);
                state.workers[at].step = Step::LeavingUnknown(false);
            }
            Action::Crash(at) => {
                abandon(state, at);
                state.workers[at] = IDLE;
            }
            Action::Write(at) => self.write(state, at),
            Action::DeliverAbandoned(operation) => {
                state.abandoned[operation] -= 1;
                self.receive(state, operation);
            }
            Action::LoseAbandoned(operation) => state.abandoned[operation] -= 1,
            Action::LeaseExpires(operation) => state.rows[operation].leased = false,
            Action::RequestsExpire(operation) => self.requests_expire(state, operation),
            Action::Reconcile(child) => reconcile(state, child),
        }
    }

    /// `charges::claim`.
    fn claim(&self, state: &mut State, at: usize, operation: usize) {
        let Some(claim) = state.rows[operation].claim() else { return };
        for worker in state.workers.iter_mut().filter(|worker| worker.operation == operation) {
            worker.fenced = false;
        }
        let step = match claim.sent_before {
            false => Step::ReadyToSend(Request { resend: false, expired: false }),
            true if self.has_flaw(Flaw::ResendWithoutLookUp) => Step::SendingAgain,
            true => Step::LookingUp(claim, recorded(state)),
        };
        state.workers[at] = Worker { operation, fenced: true, step };
    }

    /// `follow_up::look_up`: the child with our reference; without references, the newest child that is not recorded.
    fn find(&self, state: &State, operation: usize, recorded: u8) -> Option<u8> {
        if !self.references {
            return unrecorded(state, recorded);
        }
        let ours = state.children.iter().position(|child| child.operation == operation)?;
        Some(u8::try_from(ours).expect("three at most"))
    }

    /// Whether the provider has seen the reference of this operation before.
    fn is_repeated(&self, state: &State, operation: usize) -> bool {
        self.references && state.children.iter().any(|child| child.operation == operation)
    }

    fn look_up(&self, state: &mut State, at: usize, missed: bool) {
        let (claim, recorded) = match state.workers[at].step {
            Step::LookingUp(claim, recorded) => (Some(claim), recorded),
            Step::ConfirmingRefusal(recorded) => (None, recorded),
            Step::Idle
            | Step::SendingAgain
            | Step::ReadyToSend(_)
            | Step::Waiting(_)
            | Step::Done(_)
            | Step::NotProcessed
            | Step::Refused
            | Step::LeavingUnknown(_) => return,
        };
        let found = self.find(state, state.workers[at].operation, recorded);
        if let Some(child) = found {
            state.children[usize::from(child)].may_be_missed = false;
        }
        state.workers[at].step = match found.filter(|_| !missed) {
            Some(child) => Step::Done(child),
            None => claim.map_or(Step::Refused, |claim| self.not_found(claim)),
        };
    }

    fn not_found(&self, claim: Claim) -> Step {
        if !claim.requests_expired && !self.has_flaw(Flaw::IgnoreInFlight) {
            Step::LeavingUnknown(false)
        } else if claim.not_found + 1 < REQUIRED_LOOK_UPS {
            Step::LeavingUnknown(true)
        } else {
            Step::SendingAgain
        }
    }

    fn send_again(&self, state: &mut State, at: usize) {
        let Worker { operation, fenced, .. } = state.workers[at];
        if state.rows[operation].sending_again(fenced, !self.has_flaw(Flaw::KeepLookUps)) {
            state.workers[at].step = Step::ReadyToSend(Request { resend: true, expired: false });
        } else {
            state.workers[at] = IDLE;
        }
    }

    /// With a deadline, requests sent so far have no effect from now on.
    fn requests_expire(&self, state: &mut State, operation: usize) {
        state.rows[operation].requests_expired = true;
        let late = |worker: &&mut Worker| worker.operation == operation && self.deadline;
        for worker in state.workers.iter_mut().filter(late) {
            if let Step::ReadyToSend(request) = &mut worker.step {
                request.expired = true;
            }
        }
    }

    /// The provider executes every refund request; with references each one only once.
    fn receive(&self, state: &mut State, operation: usize) -> Option<u8> {
        if self.is_repeated(state, operation) {
            return None;
        }
        state.children.push(Child { operation, may_be_missed: self.report_lags });
        Some(u8::try_from(state.children.len() - 1).expect("three at most"))
    }

    /// `outcome::change::record_change`, or `perform::leave_unknown`.
    fn write(&self, state: &mut State, at: usize) {
        let Worker { operation, fenced, step } = state.workers[at];
        let row = &mut state.rows[operation];
        match step {
            Step::Done(child) if !row.state.is_final() => row.finish(RowState::Succeeded(child)),
            Step::NotProcessed if !row.state.is_final() && (fenced || self.has_flaw(Flaw::NotProcessedUnfenced)) => {
                row.finish(RowState::Failed);
            }
            Step::Refused if !row.state.is_final() && (fenced || self.has_flaw(Flaw::RefusalUnfenced)) => {
                row.finish(RowState::Failed);
            }
            Step::LeavingUnknown(found_nothing) => row.leave_unknown(fenced, false, found_nothing),
            Step::Done(_)
            | Step::NotProcessed
            | Step::Refused
            | Step::Idle
            | Step::LookingUp(..)
            | Step::SendingAgain
            | Step::ReadyToSend(_)
            | Step::Waiting(_)
            | Step::ConfirmingRefusal(_) => {}
        }
        state.workers[at] = IDLE;
    }
}

fn claimable(state: &State, operation: usize) -> bool {
    state.rows[operation].state.is_open() && !state.rows[operation].leased
}

fn recorded(state: &State) -> u8 {
    let bit = |state| if let RowState::Succeeded(child) = state { 1 << child } else { 0 };
    state.rows.iter().map(|row| bit(row.state)).fold(0, |all, bit| all | bit)
}

fn unrecorded(state: &State, recorded: u8) -> Option<u8> {
    let children = u8::try_from(state.children.len()).expect("three at most");
    (0..children).rev().find(|child| recorded & (1 << child) == 0)
}

/// Whether this refund is recorded, or flagged for an operator.
pub(super) fn is_known(state: &State, child: usize) -> bool {
    state.flagged & (1 << child) != 0
        || state.rows.iter().any(|row| row.state == RowState::Succeeded(u8::try_from(child).expect("three at most")))
}

/// `is_under_way` in `reconcile::compare`.
fn is_under_way(state: &State, operation: usize) -> bool {
    state.rows[operation].state.is_open() && state.rows[operation].leased
}

/// `reconcile::compare`: records the missing outcome of an open operation, and flags anything else for an operator.
fn reconcile(state: &mut State, child: usize) {
    let operation = state.children[child].operation;
    match state.rows[operation].state.is_open() {
        true => state.rows[operation].finish(RowState::Succeeded(u8::try_from(child).expect("three at most"))),
        false => state.flagged |= 1 << child,
    }
}

/// The number of requests of the operation that may still be processed.
fn in_flight(state: &State, operation: usize) -> usize {
    let is_waiting = |step| matches!(step, Step::Waiting(Request { expired: false, .. }));
    let waiting = state.workers.iter().filter(|worker| worker.operation == operation && is_waiting(worker.step));
    waiting.count() + usize::from(state.abandoned[operation])
}

fn abandon(state: &mut State, at: usize) {
    if matches!(state.workers[at].step, Step::Waiting(Request { expired: false, .. })) {
        state.abandoned[state.workers[at].operation] += 1;
    }
}

/// `recover::confirm_refusal`: a repeated request may be refused because of the earlier one.
fn refusal_step(state: &State, at: usize, refusal: Step) -> Step {
    let resend = matches!(state.workers[at].step, Step::Waiting(Request { resend: true, .. }));
    if resend { Step::ConfirmingRefusal(recorded(state)) } else { refusal }
}

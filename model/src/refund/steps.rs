//! Which steps are possible, and what they do.

use super::{Action, Child, Flaw, LOOK_UPS, Refunding, Sending, State, Step, Worker};
use crate::row::{Claim, State as RowState};

pub(super) const IDLE: Worker = Worker { of: 0, fenced: false, step: Step::Idle };

impl Refunding {
    pub(super) fn possible(&self, state: &State, actions: &mut Vec<Action>) {
        for (at, worker) in state.workers.iter().enumerate() {
            self.of_a_worker(state, at, *worker, actions);
        }
        for of in 0..2 {
            if state.strays[of] > 0 {
                actions.extend([Action::DeliverStray(of), Action::LoseStray(of)]);
            }
            let row = state.rows[of];
            if row.leased {
                actions.push(Action::LeaseEnds(of));
            }
            // Without a deadline it is a guess.
            if row.state.was_sent() && !row.dead && (!self.deadline || in_flight(state, of) == 0) {
                actions.push(Action::RequestsDie(of));
            }
        }
        if self.reconciles {
            let left = |&child: &usize| !is_known(state, child) && !is_under_way(state, state.children[child].of);
            actions.extend((0..state.children.len()).filter(left).map(Action::Reconcile));
        }
    }

    fn of_a_worker(&self, state: &State, at: usize, worker: Worker, actions: &mut Vec<Action>) {
        match worker.step {
            Step::Idle => {
                let may = |&operation: &usize| self.index_allows(state, operation) && claimable(state, operation);
                actions.extend((0..2).filter(may).map(|operation| Action::Claim { worker: at, operation }));
            }
            Step::LookingUp(_, recorded) | Step::Doubting(recorded) => {
                actions.push(Action::LookUp { worker: at, missed: false });
                if self.found(state, worker.of, recorded).is_some_and(|child| state.children[usize::from(child)].fresh)
                {
                    actions.push(Action::LookUp { worker: at, missed: true });
                }
            }
            Step::SendingAgain => actions.push(Action::SendAgain(at)),
            Step::Armed(_) if in_flight(state, worker.of) <= self.workers => actions.push(Action::Send(at)),
            Step::Armed(_) => {}
            Step::Waiting(sending) => {
                // What has expired is turned away, if it arrives.
                for heard in [true, false].into_iter().filter(|_| !sending.expired) {
                    actions.extend([true, false].map(|made| Action::Deliver { worker: at, made, heard }));
                }
                actions.extend([Action::LoseRequest(at), Action::TurnAway(at), Action::TimeOut(at)]);
            }
            Step::Done(_) | Step::NotProcessed | Step::Refused | Step::Leaving(_) => actions.push(Action::Write(at)),
        }
        if worker.step != Step::Idle {
            actions.push(Action::Crash(at));
        }
    }

    /// The unique index `operations_one_in_flight`.
    fn index_allows(&self, state: &State, operation: usize) -> bool {
        !self.one_in_flight || !state.rows[1 - operation].state.was_sent()
    }

    pub(super) fn take(&self, state: &mut State, action: Action) {
        match action {
            Action::Claim { worker, operation } => self.claim(state, worker, operation),
            Action::LookUp { worker, missed } => self.look_up(state, worker, missed),
            Action::SendAgain(at) => self.send_again(state, at),
            Action::Send(at) => {
                let Step::Armed(sending) = state.workers[at].step else { return };
                state.workers[at].step = Step::Waiting(sending);
            }
            Action::Deliver { worker, made, heard } => {
                let of = state.workers[worker].of;
                let is_repeated = self.is_repeated(state, of);
                let child = if made { self.receive(state, of) } else { None };
                state.workers[worker].step = match child {
                    _ if !heard => Step::Leaving(false),
                    Some(child) => Step::Done(child),
                    // It is looked up, and never taken for a refusal.
                    None if is_repeated => Step::Leaving(false),
                    None => refused(state, worker, Step::Refused),
                };
            }
            Action::LoseRequest(at) => state.workers[at].step = Step::Leaving(false),
            Action::TurnAway(at) => {
                let again = matches!(state.workers[at].step, Step::Waiting(Sending { again: true, .. }));
                state.workers[at].step = if again { Step::Leaving(false) } else { Step::NotProcessed };
            }
            Action::TimeOut(at) => {
                stray(state, at);
                state.workers[at].step = Step::Leaving(false);
            }
            Action::Crash(at) => {
                stray(state, at);
                state.workers[at] = IDLE;
            }
            Action::Write(at) => self.write(state, at),
            Action::DeliverStray(of) => {
                state.strays[of] -= 1;
                self.receive(state, of);
            }
            Action::LoseStray(of) => state.strays[of] -= 1,
            Action::LeaseEnds(of) => state.rows[of].leased = false,
            Action::RequestsDie(of) => self.requests_die(state, of),
            Action::Reconcile(child) => reconcile(state, child),
        }
    }

    /// `operations::claim`, and what `perform::complete` reads beside.
    fn claim(&self, state: &mut State, at: usize, operation: usize) {
        let Some(claim) = state.rows[operation].claim() else { return };
        for worker in state.workers.iter_mut().filter(|worker| worker.of == operation) {
            worker.fenced = false;
        }
        let step = match claim.sent_before {
            false => Step::Armed(Sending { again: false, expired: false }),
            true if self.lacks(Flaw::ResendUnasked) => Step::SendingAgain,
            true => Step::LookingUp(claim, recorded(state)),
        };
        state.workers[at] = Worker { of: operation, fenced: true, step };
    }

    /// `follow::look_up`: the child with our reference, or where there are none the newest that our books do not have.
    fn found(&self, state: &State, of: usize, recorded: u8) -> Option<u8> {
        if !self.references {
            return unrecorded(state, recorded);
        }
        let ours = state.children.iter().position(|child| child.of == of)?;
        Some(u8::try_from(ours).expect("three at most"))
    }

    /// Whether the provider has seen the reference of this operation before.
    fn is_repeated(&self, state: &State, of: usize) -> bool {
        self.references && state.children.iter().any(|child| child.of == of)
    }

    fn look_up(&self, state: &mut State, at: usize, missed: bool) {
        let (claim, recorded) = match state.workers[at].step {
            Step::LookingUp(claim, recorded) => (Some(claim), recorded),
            Step::Doubting(recorded) => (None, recorded),
            Step::Idle
            | Step::SendingAgain
            | Step::Armed(_)
            | Step::Waiting(_)
            | Step::Done(_)
            | Step::NotProcessed
            | Step::Refused
            | Step::Leaving(_) => return,
        };
        let found = self.found(state, state.workers[at].of, recorded);
        if let Some(child) = found {
            state.children[usize::from(child)].fresh = false;
        }
        state.workers[at].step = match found.filter(|_| !missed) {
            Some(child) => Step::Done(child),
            None => claim.map_or(Step::Refused, |claim| self.nothing(claim)),
        };
    }

    fn nothing(&self, claim: Claim) -> Step {
        if !claim.dead && !self.lacks(Flaw::IgnoreInFlight) {
            Step::Leaving(false)
        } else if claim.not_found + 1 < LOOK_UPS {
            Step::Leaving(true)
        } else {
            Step::SendingAgain
        }
    }

    fn send_again(&self, state: &mut State, at: usize) {
        let Worker { of, fenced, .. } = state.workers[at];
        if state.rows[of].sending_again(fenced, !self.lacks(Flaw::KeepLookUps)) {
            state.workers[at].step = Step::Armed(Sending { again: true, expired: false });
        } else {
            state.workers[at] = IDLE;
        }
    }

    /// What was sent so far can do nothing from now on, if the provider has a deadline.
    fn requests_die(&self, state: &mut State, of: usize) {
        state.rows[of].dead = true;
        let late = |worker: &&mut Worker| worker.of == of && self.deadline;
        for worker in state.workers.iter_mut().filter(late) {
            if let Step::Armed(sending) = &mut worker.step {
                sending.expired = true;
            }
        }
    }

    /// The provider gives money back, each time it is asked; once for a reference.
    fn receive(&self, state: &mut State, of: usize) -> Option<u8> {
        if self.is_repeated(state, of) {
            return None;
        }
        state.children.push(Child { of, fresh: self.lags });
        Some(u8::try_from(state.children.len() - 1).expect("three at most"))
    }

    /// `outcome::refund`, or `perform::leave_unknown`.
    fn write(&self, state: &mut State, at: usize) {
        let Worker { of, fenced, step } = state.workers[at];
        let row = &mut state.rows[of];
        match step {
            Step::Done(child) if !row.state.is_final() => row.finish(RowState::Succeeded(child)),
            Step::NotProcessed if !row.state.is_final() && (fenced || self.lacks(Flaw::NotProcessedUnfenced)) => {
                row.finish(RowState::Failed);
            }
            Step::Refused if !row.state.is_final() && (fenced || self.lacks(Flaw::RefusalUnfenced)) => {
                row.finish(RowState::Failed);
            }
            Step::Leaving(found_nothing) => row.leave_unknown(fenced, false, found_nothing),
            Step::Done(_)
            | Step::NotProcessed
            | Step::Refused
            | Step::Idle
            | Step::LookingUp(..)
            | Step::SendingAgain
            | Step::Armed(_)
            | Step::Waiting(_)
            | Step::Doubting(_) => {}
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

/// Whether our books have this refund, or a person was told of it.
pub(super) fn is_known(state: &State, child: usize) -> bool {
    state.noticed & (1 << child) != 0
        || state.rows.iter().any(|row| row.state == RowState::Succeeded(u8::try_from(child).expect("three at most")))
}

/// `Known::is_under_way`.
fn is_under_way(state: &State, of: usize) -> bool {
    state.rows[of].state.is_open() && state.rows[of].leased
}

/// `reconcile::compare`: an outcome that our books lack is recorded, and what does not fit them is for a person.
fn reconcile(state: &mut State, child: usize) {
    let of = state.children[child].of;
    match state.rows[of].state.is_open() {
        true => state.rows[of].finish(RowState::Succeeded(u8::try_from(child).expect("three at most"))),
        false => state.noticed |= 1 << child,
    }
}

/// Requests of the operation that may still be acted on.
fn in_flight(state: &State, of: usize) -> usize {
    let waits =
        |worker: &&Worker| worker.of == of && matches!(worker.step, Step::Waiting(Sending { expired: false, .. }));
    state.workers.iter().filter(waits).count() + usize::from(state.strays[of])
}

fn stray(state: &mut State, at: usize) {
    if matches!(state.workers[at].step, Step::Waiting(Sending { expired: false, .. })) {
        state.strays[state.workers[at].of] += 1;
    }
}

/// `perform::doubt_refusal`. A refusal of what was sent again may be of the earlier request's doing.
fn refused(state: &State, at: usize, refusal: Step) -> Step {
    let again = matches!(state.workers[at].step, Step::Waiting(Sending { again: true, .. }));
    if again { Step::Doubting(recorded(state)) } else { refusal }
}

//! What a step does. Each arm names nothing that the code does not read or write at that moment.

use super::provider::{Reply, note_approval};
use super::{Action, Answer, Charging, Class, Flaw, Parent, Sending, Standing, State, Step, Why};
use crate::row::{Claim, State as RowState};

/// `perform::LOOK_UPS`.
const LOOK_UPS: u8 = 2;
const FIRST: Step = Step::Armed(Sending { again: false, alone: true, expired: false });

impl Charging {
    pub(super) fn take(&self, state: &mut State, action: Action) {
        match action {
            Action::Begin => {
                state.row.state = RowState::Ready;
                state.ids = 1;
            }
            Action::LookAtInvoice => state.parent = Parent::Looked,
            Action::Void => state.parent = Parent::Voided,
            Action::Sweep | Action::Duplicate => state.ids += 1,
            Action::LoseId => state.ids -= 1,
            Action::Claim(at) => self.claim(state, at),
            Action::LookUp { worker, missed } => self.look_up(state, worker, missed),
            Action::SendAgain(at) => self.send_again(state, at),
            Action::Send(at) => {
                let Step::Armed(sending) = state.workers[at].step else { return };
                let reference = if sending.again { state.reference } else { 0 };
                state.workers[at].step = Step::Waiting(sending, reference);
            }
            Action::Deliver { worker, decision, heard } => {
                let Step::Waiting(sending, reference) = state.workers[worker].step else { return };
                let reply = self.receive(state, reference, decision);
                state.workers[worker].step =
                    if heard { self.hears(sending, &reply) } else { Step::Leaving(Why::NoAnswer) };
            }
            Action::LoseRequest(at) => state.workers[at].step = Step::Leaving(Why::NoAnswer),
            Action::TurnAway(at) => self.turned_away(state, at),
            Action::TurnAwayForNow(at) => {
                let Step::Waiting(sending, _) = state.workers[at].step else { return };
                let why = if sending.again { Why::NoAnswer } else { Why::NotProcessed };
                state.workers[at].step = Step::Leaving(why);
            }
            Action::TimeOut(at) => {
                stray(state, at);
                state.workers[at].step = Step::Leaving(Why::NoAnswer);
            }
            Action::Crash(at) => {
                stray(state, at);
                rest(state, at);
            }
            Action::LeaveUnknown(at) => self.leave(state, at),
            Action::Record(at) => self.record(state, at),
            Action::DeliverStray { reference, decision } => {
                state.strays[usize::from(reference)] -= 1;
                self.receive(state, reference, decision);
            }
            Action::LoseStray(reference) => state.strays[usize::from(reference)] -= 1,
            Action::LeaseEnds => state.row.leased = false,
            Action::RequestsDie => self.requests_die(state),
            Action::Decide { charge, approved } => {
                state.charges[charge].standing = if approved { Standing::Approved } else { Standing::Declined };
                if approved {
                    note_approval(state);
                }
            }
            Action::Reverse(at) => state.charges[at].standing = Standing::Reversed,
            Action::Reconcile(at) => self.approved(state, u8::try_from(at).expect("three at most")),
            Action::GiveUp => state.row.finish(RowState::Failed),
        }
    }

    /// `operations::claim`, and the choice in `perform` that follows it.
    fn claim(&self, state: &mut State, at: usize) {
        state.ids -= 1;
        let unlocked = self.lacks(Flaw::ClaimWithoutLock) && state.row.state == RowState::Sending;
        let claim =
            if unlocked { Some(Claim { sent_before: false, not_found: 0, dead: false }) } else { state.row.claim() };
        let Some(claim) = claim else { return };
        state.workers.iter_mut().for_each(|worker| worker.fenced = false);
        state.workers[at].fenced = true;
        state.workers[at].step = if claim.sent_before { self.recover(claim) } else { FIRST };
    }

    /// `perform::recover`.
    fn recover(&self, claim: Claim) -> Step {
        match self.class {
            Class::Idempotent => Step::SendingAgain,
            Class::Lookup | Class::LookupOnly if self.lacks(Flaw::ResendUnasked) => Step::SendingAgain,
            Class::Lookup | Class::LookupOnly => Step::LookingUp(claim),
            Class::Neither if self.lacks(Flaw::ResendInC) => Step::SendingAgain,
            Class::Neither => Step::Leaving(Why::OnlyAPerson),
        }
    }

    /// `perform::look_up`, and the look-up of `perform::doubt_refusal`.
    fn look_up(&self, state: &mut State, at: usize, missed: bool) {
        let asking = state.workers[at].step;
        state.workers[at].step = match (self.report(state, missed), asking) {
            (Some(Answer::Challenged), _) => Step::Leaving(Why::Pending),
            (Some(answer), _) => Step::Answered(answer),
            (None, Step::LookingUp(claim)) => self.not_found(claim),
            (None, Step::Doubting(refusal)) => Step::Answered(refusal),
            (None, other) => other,
        };
    }

    fn not_found(&self, claim: Claim) -> Step {
        let needed = if self.lacks(Flaw::OneLookUp) { 1 } else { LOOK_UPS };
        if self.lacks(Flaw::BelieveNotFound) {
            Step::Answered(Answer::NotProcessed)
        } else if !claim.dead && !self.lacks(Flaw::IgnoreInFlight) {
            Step::Leaving(Why::MayArrive)
        } else if claim.not_found + 1 < needed {
            Step::Leaving(Why::FoundNothing)
        } else {
            Step::SendingAgain
        }
    }

    fn send_again(&self, state: &mut State, at: usize) {
        if !state.row.sending_again(state.workers[at].fenced, !self.lacks(Flaw::KeepLookUps)) {
            return rest(state, at);
        }
        if self.lacks(Flaw::NewReference) {
            state.reference = 1;
        }
        // What this one came to says nothing of the requests before it.
        let alone = self.lacks(Flaw::NotProcessedAfterAll);
        state.workers[at].step = Step::Armed(Sending { again: true, alone, expired: false });
    }

    /// What was sent so far can do nothing from now on. Where the provider has no deadline, that is wrong of what a worker is
    /// still to send.
    fn requests_die(&self, state: &mut State) {
        state.row.dead = true;
        for worker in state.workers.iter_mut().filter(|_| self.deadline) {
            if let Step::Armed(sending) = &mut worker.step {
                sending.expired = true;
            }
        }
    }

    fn hears(&self, sending: Sending, reply: &Reply) -> Step {
        match reply {
            Reply::Says(Answer::Refused) => self.refused(sending, Answer::Refused),
            Reply::Says(answer) => Step::Answered(*answer),
            Reply::Repeated if self.is_decline() => Step::Answered(Answer::Declined),
            Reply::Repeated => Step::Leaving(Why::Repeated),
        }
    }

    /// `Fault::NotProcessed`, in `perform::send`.
    fn turned_away(&self, state: &mut State, at: usize) {
        let Step::Waiting(sending, _) = state.workers[at].step else { return };
        state.workers[at].step =
            if sending.alone { self.refused(sending, Answer::NotProcessed) } else { Step::Leaving(Why::NoAnswer) };
    }

    fn refused(&self, sending: Sending, answer: Answer) -> Step {
        let doubtful = sending.again && self.class.looks_up();
        if doubtful { Step::Doubting(answer) } else { Step::Answered(answer) }
    }

    /// `outcome::charge`: by the operation, and not by the fence.
    fn record(&self, state: &mut State, at: usize) {
        let Step::Answered(answer) = state.workers[at].step else { return };
        let fenced = state.workers[at].fenced;
        match answer {
            Answer::Challenged => state.row.leave_unknown(fenced, false, false),
            Answer::NotProcessed => self.nothing_done(state, fenced || self.lacks(Flaw::NotProcessedUnfenced)),
            Answer::Refused => self.nothing_done(state, fenced || self.lacks(Flaw::RefusalUnfenced)),
            Answer::Declined => self.finish(state, RowState::Declined),
            Answer::Approved(charge) => {
                state.charges[usize::from(charge)].told = true;
                if fenced || !self.lacks(Flaw::OutcomeByFence) {
                    self.approved(state, charge);
                }
            }
        }
        rest(state, at);
    }

    /// It says of this claim's request that it left no trace, so it is an outcome as long as there is no later claim.
    fn nothing_done(&self, state: &mut State, is_latest: bool) {
        if is_latest || self.lacks(Flaw::OverwriteFinal) {
            self.finish(state, RowState::Failed);
        }
    }

    /// `outcome::conclude`, or `outcome::late_charge` where the operation has ended.
    fn approved(&self, state: &mut State, charge: u8) {
        if !state.row.state.is_final() || self.lacks(Flaw::OverwriteFinal) {
            state.row.finish(RowState::Succeeded(charge));
        } else if state.row.state != RowState::Succeeded(charge) && !self.lacks(Flaw::KeepSecondCharge) {
            state.charges[usize::from(charge)].unwanted = true;
        }
    }

    /// `perform::leave_unknown`, and `operations::put_back`.
    fn leave(&self, state: &mut State, at: usize) {
        let Step::Leaving(why) = state.workers[at].step else { return };
        let fenced = state.workers[at].fenced;
        match why {
            Why::NotProcessed => state.row.put_back(fenced || self.lacks(Flaw::PutBackUnfenced)),
            Why::NoAnswer | Why::Repeated | Why::Pending | Why::MayArrive | Why::FoundNothing | Why::OnlyAPerson => {
                state.row.leave_unknown(fenced, why == Why::OnlyAPerson, why == Why::FoundNothing);
            }
        }
        rest(state, at);
    }

    fn finish(&self, state: &mut State, end: RowState) {
        if !state.row.state.is_final() || self.lacks(Flaw::OverwriteFinal) {
            state.row.finish(end);
        }
    }
}

/// Nobody waits for its request any more.
fn stray(state: &mut State, at: usize) {
    if let Step::Waiting(Sending { expired: false, .. }, reference) = state.workers[at].step {
        state.strays[usize::from(reference)] += 1;
    }
}

fn rest(state: &mut State, at: usize) {
    state.workers[at].step = Step::Idle;
    state.workers[at].fenced = false;
}

//! The effect of each action. It uses only what the code reads or writes at that moment.

use super::provider::{Reply, record_approval};
use super::{Action, ChargeModel, ChargeStatus, Class, Flaw, Invoice, Request, Response, State, Step, UnknownReason};
use crate::row::{Claim, State as RowState};

/// `recover::REQUIRED_LOOK_UPS`.
const REQUIRED_LOOK_UPS: u8 = 2;
const FIRST_REQUEST: Step = Step::ReadyToSend(Request { resend: false, sole: true, expired: false });

impl ChargeModel {
    pub(super) fn apply(&self, state: &mut State, action: Action) {
        match action {
            Action::Begin => {
                state.row.state = RowState::Ready;
                state.ids = 1;
            }
            Action::CheckUnlocked => state.invoice = Invoice::CheckedUnlocked,
            Action::Void => state.invoice = Invoice::Voided,
            Action::Sweep | Action::Duplicate => state.ids += 1,
            Action::LoseId => state.ids -= 1,
            Action::Claim(at) => self.claim(state, at),
            Action::LookUp { worker, missed } => self.look_up(state, worker, missed),
            Action::SendAgain(at) => self.send_again(state, at),
            Action::Send(at) => {
                let Step::ReadyToSend(request) = state.workers[at].step else { return };
                let reference = if request.resend { state.reference } else { 0 };
                state.workers[at].step = Step::Waiting(request, reference);
            }
            Action::Deliver { worker, decision, received } => {
                let Step::Waiting(request, reference) = state.workers[worker].step else { return };
                let reply = self.receive(state, reference, decision);
                state.workers[worker].step = if received {
                    self.on_reply(request, &reply)
                } else {
                    Step::LeavingUnknown(UnknownReason::NoResponse)
                };
            }
            Action::LoseRequest(at) => state.workers[at].step = Step::LeavingUnknown(UnknownReason::NoResponse),
            Action::NotProcessed(at) => self.not_processed(state, at),
            Action::NotProcessedInBackground(at) => {
                let Step::Waiting(request, _) = state.workers[at].step else { return };
                let reason = if request.resend { UnknownReason::NoResponse } else { UnknownReason::NotProcessed };
                state.workers[at].step = Step::LeavingUnknown(reason);
            }
            Action::TimeOut(at) => {
                abandon(state, at);
                state.workers[at].step = Step::LeavingUnknown(UnknownReason::NoResponse);
            }
            Action::Crash(at) => {
                abandon(state, at);
                go_idle(state, at);
            }
            Action::LeaveUnknown(at) => self.leave(state, at),
            Action::Record(at) => self.record(state, at),
            Action::DeliverAbandoned { reference, decision } => {
                state.abandoned[usize::from(reference)] -= 1;
                self.receive(state, reference, decision);
            }
            Action::LoseAbandoned(reference) => state.abandoned[usize::from(reference)] -= 1,
            Action::LeaseExpires => state.row.leased = false,
            Action::RequestsExpire => self.requests_expire(state),
            Action::Ages => state.old = true,
            Action::Forgets => state.forgotten = true,
            Action::Decide { charge, approved } => {
                state.charges[charge].status = if approved { ChargeStatus::Approved } else { ChargeStatus::Declined };
                if approved {
                    record_approval(state);
                }
            }
            Action::Reverse(at) => state.charges[at].status = ChargeStatus::Reversed,
            Action::Reconcile(at) => self.approved(state, u8::try_from(at).expect("three at most")),
            Action::FailByTimer => state.row.finish(RowState::Failed),
        }
    }

    /// `charges::claim`, and the decision in `perform` after it.
    fn claim(&self, state: &mut State, at: usize) {
        state.ids -= 1;
        let claim = if self.has_flaw(Flaw::ClaimWithoutLock) && state.row.state == RowState::Sending {
            Some(Claim { sent_before: false, not_found: 0, requests_expired: false })
        } else {
            state.row.claim()
        };
        let Some(claim) = claim else { return };
        state.workers.iter_mut().for_each(|worker| worker.fenced = false);
        state.workers[at].fenced = true;
        state.workers[at].step = if claim.sent_before { self.recover(claim, state.old) } else { FIRST_REQUEST };
    }

    /// `recover::recover`.
    fn recover(&self, claim: Claim, old: bool) -> Step {
        match self.class {
            Class::IdempotentForATime if old && !self.has_flaw(Flaw::ResendForgotten) => Step::LookingUp(claim),
            Class::Idempotent | Class::IdempotentForATime => Step::SendingAgain,
            Class::Lookup | Class::LookupOnly if self.has_flaw(Flaw::ResendWithoutLookUp) => Step::SendingAgain,
            Class::Lookup | Class::LookupOnly => Step::LookingUp(claim),
            Class::Neither if self.has_flaw(Flaw::ResendInClassC) => Step::SendingAgain,
            Class::Neither => Step::LeavingUnknown(UnknownReason::ManualReview),
        }
    }

    /// `recover::look_up`, and the look-up of `recover::confirm_refusal`.
    fn look_up(&self, state: &mut State, at: usize, missed: bool) {
        let step = state.workers[at].step;
        state.workers[at].step = match (self.report(state, missed), step) {
            (Some(Response::Challenged), _) => Step::LeavingUnknown(UnknownReason::Pending),
            (Some(response), _) => Step::Recording(response),
            (None, Step::LookingUp(claim)) => self.not_found(claim),
            (None, Step::ConfirmingRefusal(refusal)) => Step::Recording(refusal),
            (None, other) => other,
        };
    }

    fn not_found(&self, claim: Claim) -> Step {
        let needed = if self.has_flaw(Flaw::OneLookUp) { 1 } else { REQUIRED_LOOK_UPS };
        if self.class == Class::IdempotentForATime {
            // `recover::look_up_forgotten`.
            let reviewed = claim.not_found + 1 >= needed;
            Step::LeavingUnknown(if reviewed { UnknownReason::ManualReview } else { UnknownReason::NotFound })
        } else if self.has_flaw(Flaw::TrustNotFound) {
            Step::Recording(Response::NotProcessed)
        } else if !claim.requests_expired && !self.has_flaw(Flaw::IgnoreInFlight) {
            Step::LeavingUnknown(UnknownReason::MayStillArrive)
        } else if claim.not_found + 1 < needed {
            Step::LeavingUnknown(UnknownReason::NotFound)
        } else {
            Step::SendingAgain
        }
    }

    fn send_again(&self, state: &mut State, at: usize) {
        if !state.row.sending_again(state.workers[at].fenced, !self.has_flaw(Flaw::KeepLookUps)) {
            return go_idle(state, at);
        }
        if self.has_flaw(Flaw::NewReference) {
            state.reference = 1;
        }
        // The result of this request does not cover earlier ones.
        let sole = self.has_flaw(Flaw::NotProcessedAfterResend);
        state.workers[at].step = Step::ReadyToSend(Request { resend: true, sole, expired: false });
    }

    /// Requests sent so far have no effect from now on. With a deadline this includes requests that a worker has
    /// prepared but not sent yet.
    fn requests_expire(&self, state: &mut State) {
        state.row.requests_expired = true;
        let is_refused_late = self.deadline && self.class.looks_up();
        for worker in state.workers.iter_mut().filter(|_| is_refused_late) {
            if let Step::ReadyToSend(request) = &mut worker.step {
                request.expired = true;
            }
        }
    }

    fn on_reply(&self, request: Request, reply: &Reply) -> Step {
        match reply {
            Reply::Outcome(Response::Refused) => self.refused(request, Response::Refused),
            Reply::Outcome(response) => Step::Recording(*response),
            Reply::RepeatedReference if self.repeat_is_decline() => Step::Recording(Response::Declined),
            Reply::RepeatedReference => Step::LeavingUnknown(UnknownReason::RepeatedReference),
        }
    }

    /// `ProviderError::NotProcessed`, in `send::send`.
    fn not_processed(&self, state: &mut State, at: usize) {
        let Step::Waiting(request, _) = state.workers[at].step else { return };
        state.workers[at].step = if request.sole {
            self.refused(request, Response::NotProcessed)
        } else {
            Step::LeavingUnknown(UnknownReason::NoResponse)
        };
    }

    fn refused(&self, request: Request, response: Response) -> Step {
        let needs_confirmation = request.resend && self.class.looks_up();
        if needs_confirmation { Step::ConfirmingRefusal(response) } else { Step::Recording(response) }
    }

    /// `outcome::record_charge`: an approval is accepted for the operation, whatever the fencing token.
    fn record(&self, state: &mut State, at: usize) {
        let Step::Recording(response) = state.workers[at].step else { return };
        let fenced = state.workers[at].fenced;
        match response {
            Response::Challenged => state.row.leave_unknown(fenced, false, false),
            Response::NotProcessed => self.record_no_effect(state, fenced || self.has_flaw(Flaw::NotProcessedUnfenced)),
            Response::Refused => self.record_no_effect(state, fenced || self.has_flaw(Flaw::RefusalUnfenced)),
            Response::Declined => self.finish(state, RowState::Declined),
            Response::Approved(charge) => {
                state.charges[usize::from(charge)].reported = true;
                if fenced || !self.has_flaw(Flaw::OutcomeByFence) {
                    self.approved(state, charge);
                }
            }
        }
        go_idle(state, at);
    }

    /// The response covers only this claim's request, so it is an outcome only if there is no later claim.
    fn record_no_effect(&self, state: &mut State, is_latest: bool) {
        if is_latest || self.has_flaw(Flaw::OverwriteFinal) {
            self.finish(state, RowState::Failed);
        }
    }

    /// `outcome::charge::end_charge`, which calls `late_charge` if the operation has ended.
    fn approved(&self, state: &mut State, charge: u8) {
        if !state.row.state.is_final() || self.has_flaw(Flaw::OverwriteFinal) {
            state.row.finish(RowState::Succeeded(charge));
        } else if state.row.state != RowState::Succeeded(charge) && !self.has_flaw(Flaw::KeepSecondCharge) {
            state.charges[usize::from(charge)].unwanted = true;
        }
    }

    /// `perform::leave_unknown`, and `charges::requeue`.
    fn leave(&self, state: &mut State, at: usize) {
        let Step::LeavingUnknown(reason) = state.workers[at].step else { return };
        let fenced = state.workers[at].fenced;
        match reason {
            UnknownReason::NotProcessed => state.row.requeue(fenced || self.has_flaw(Flaw::RequeueUnfenced)),
            UnknownReason::NoResponse
            | UnknownReason::RepeatedReference
            | UnknownReason::Pending
            | UnknownReason::MayStillArrive
            | UnknownReason::NotFound
            | UnknownReason::ManualReview => {
                let (review, not_found) = (UnknownReason::ManualReview, UnknownReason::NotFound);
                state.row.leave_unknown(fenced, reason == review, reason == not_found);
            }
        }
        go_idle(state, at);
    }

    fn finish(&self, state: &mut State, outcome: RowState) {
        if !state.row.state.is_final() || self.has_flaw(Flaw::OverwriteFinal) {
            state.row.finish(outcome);
        }
    }
}

/// The worker stops waiting for its request, which remains in flight.
fn abandon(state: &mut State, at: usize) {
    if let Step::Waiting(Request { expired: false, .. }, reference) = state.workers[at].step {
        state.abandoned[usize::from(reference)] += 1;
    }
}

fn go_idle(state: &mut State, at: usize) {
    state.workers[at].step = Step::Idle;
    state.workers[at].fenced = false;
}

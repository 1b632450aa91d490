//! The provider: the charges that it books, and its responses.

use super::{ChargeModel, Flaw, Invoice, Response, State};

/// How a provider supports recovery after a lost response (`providers::RecoveryClass`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A: a repeated reference returns the first response.
    Idempotent,
    /// A, until the provider forgets the reference. It can be looked up all the time.
    IdempotentForATime,
    /// B: a reference can be looked up, and a repeated one is refused.
    Lookup,
    /// A provider that breaks the promise of class B: references can be looked up, but repeated ones are treated as
    /// new. It shows how far waiting and look-ups alone protect.
    LookupOnly,
    /// C: neither.
    Neither,
}

impl Class {
    /// Whether it can be queried, and therefore has a statement.
    pub const fn retains_records(self) -> bool {
        match self {
            Self::Idempotent | Self::IdempotentForATime | Self::Lookup | Self::LookupOnly => true,
            Self::Neither => false,
        }
    }

    /// Whether a reference that the provider remembers is charged at most once.
    pub const fn knows_repeats(self) -> bool {
        match self {
            Self::Idempotent | Self::IdempotentForATime | Self::Lookup => true,
            Self::LookupOnly | Self::Neither => false,
        }
    }

    pub(super) const fn looks_up(self) -> bool {
        match self {
            Self::Lookup | Self::LookupOnly => true,
            Self::Idempotent | Self::IdempotentForATime | Self::Neither => false,
        }
    }
}

/// The provider's decision about a request that is new to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    Approve,
    Decline,
    /// The cardholder must authenticate.
    Challenge,
    /// It is refused before it is booked, so the reference remains unused.
    Refuse,
}

/// A booked charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Charge {
    pub reference: u8,
    pub status: ChargeStatus,
    /// How many look-ups may still miss it.
    pub lag: u8,
    /// Whether a worker received its approval and recorded it.
    pub reported: bool,
    /// Whether it is recorded as a second charge, to be reversed (`charge_anomalies`).
    pub unwanted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChargeStatus {
    /// The cardholder is authenticating.
    Pending,
    Approved,
    Declined,
    Reversed,
}

pub(super) enum Reply {
    Outcome(Response),
    RepeatedReference,
}

impl ChargeModel {
    /// The provider's possible decisions about a request; only `None` if it is a repeated one.
    pub(super) fn decisions(&self, state: &State, reference: u8) -> &'static [Option<Decision>] {
        let is_known = state.charges.iter().any(|charge| charge.reference == reference);
        if self.class.knows_repeats() && is_known && !state.forgotten {
            return &[None];
        }
        let all =
            &[Some(Decision::Approve), Some(Decision::Decline), Some(Decision::Challenge), Some(Decision::Refuse)];
        match (self.class.looks_up(), self.discards_refusals) {
            (true, true) => all,
            (true, false) => &all[..3],
            (false, _) if self.class == Class::IdempotentForATime => &all[..3],
            (false, _) => &all[..2],
        }
    }

    /// Processes a request.
    pub(super) fn receive(&self, state: &mut State, reference: u8, decision: Option<Decision>) -> Reply {
        let Some(decision) = decision else {
            let first = state.charges.iter().position(|charge| charge.reference == reference);
            return match first {
                Some(first) if matches!(self.class, Class::Idempotent | Class::IdempotentForATime) => {
                    Reply::Outcome(response(state, first))
                }
                Some(_) | None => Reply::RepeatedReference,
            };
        };
        let status = match decision {
            Decision::Approve => ChargeStatus::Approved,
            Decision::Decline => ChargeStatus::Declined,
            Decision::Challenge => ChargeStatus::Pending,
            Decision::Refuse => return Reply::Outcome(Response::Refused),
        };
        state.charges.push(Charge { reference, status, lag: self.max_lag, reported: false, unwanted: false });
        if status == ChargeStatus::Approved {
            record_approval(state);
        }
        Reply::Outcome(response(state, state.charges.len() - 1))
    }

    /// The provider's report on the operation's reference; `None` if it has no charge, or `missed`.
    pub(super) fn report(&self, state: &mut State, missed: bool) -> Option<Response> {
        let reference = state.reference;
        let at = state.charges.iter().position(|charge| charge.reference == reference)?;
        let charge = &mut state.charges[at];
        charge.lag = if missed { charge.lag - 1 } else { 0 };
        (!missed).then(|| response(state, at))
    }

    /// Whether a look-up may miss the booked charge.
    pub(super) fn may_miss(&self, state: &State) -> bool {
        let found = state.charges.iter().find(|charge| charge.reference == state.reference);
        found.is_some_and(|charge| charge.lag > 0)
    }

    /// Whether the refusal of a repeated reference counts as a decline.
    pub(super) fn repeat_is_decline(&self) -> bool {
        self.has_flaw(Flaw::RepeatIsDecline)
    }
}

/// Notes whether the approval violates a void.
pub(super) fn record_approval(state: &mut State) {
    if state.invoice == Invoice::Voided {
        state.invoice = Invoice::ChargedAfterVoid;
    }
}

fn response(state: &State, at: usize) -> Response {
    match state.charges[at].status {
        ChargeStatus::Pending => Response::Challenged,
        ChargeStatus::Approved | ChargeStatus::Reversed => Response::Approved(u8::try_from(at).expect("three at most")),
        ChargeStatus::Declined => Response::Declined,
    }
}

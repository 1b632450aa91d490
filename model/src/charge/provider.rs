//! The provider: what it enters, and what it answers.

use super::{Answer, Charging, Flaw, Parent, State};

/// What a provider offers to whoever lost its answer (`providers::RecoveryClass`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A: a repeated reference gets the first answer.
    Idempotent,
    /// B: a reference can be looked up, and a repeated one is refused.
    Lookup,
    /// A provider that breaks the promise of class B: it can be asked, and takes a repeated reference as if it were new. It
    /// shows what the rules of waiting and asking are worth alone.
    LookupOnly,
    /// C: neither.
    Neither,
}

impl Class {
    /// Whether it can be asked, so that there is a statement too.
    pub const fn remembers(self) -> bool {
        match self {
            Self::Idempotent | Self::Lookup | Self::LookupOnly => true,
            Self::Neither => false,
        }
    }

    /// Whether one reference is one charge.
    pub const fn knows_repeats(self) -> bool {
        match self {
            Self::Idempotent | Self::Lookup => true,
            Self::LookupOnly | Self::Neither => false,
        }
    }

    pub(super) const fn looks_up(self) -> bool {
        match self {
            Self::Lookup | Self::LookupOnly => true,
            Self::Idempotent | Self::Neither => false,
        }
    }
}

/// What the provider makes of a request that is new to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The issuer says yes.
    Approve,
    /// The issuer says no.
    Decline,
    /// The cardholder is asked.
    Challenge,
    /// It is turned down before it is entered, so the reference is as good as new.
    Refuse,
}

/// What it has entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Charge {
    /// Under which reference.
    pub reference: u8,
    /// How it stands.
    pub standing: Standing,
    /// How many look-ups may still miss it.
    pub unseen: u8,
    /// Whether a worker was told of it and lived to record it.
    pub told: bool,
    /// Whether our books call it a second one, to be reversed (`charge_anomalies`).
    pub unwanted: bool,
}

/// How a charge stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// Its cardholder is being asked.
    Pending,
    /// Money has moved.
    Approved,
    /// It has not, and will not.
    Declined,
    /// It has moved back.
    Reversed,
}

pub(super) enum Reply {
    Says(Answer),
    Repeated,
}

impl Charging {
    /// What the provider may decide about a request; `None` alone if it knows its reference.
    pub(super) fn decisions(&self, state: &State, reference: u8) -> &'static [Option<Decision>] {
        let known = state.charges.iter().any(|charge| charge.reference == reference);
        if self.class.knows_repeats() && known {
            return &[None];
        }
        let all =
            &[Some(Decision::Approve), Some(Decision::Decline), Some(Decision::Challenge), Some(Decision::Refuse)];
        match (self.class.looks_up(), self.forgets) {
            (true, true) => all,
            (true, false) => &all[..3],
            (false, _) => &all[..2],
        }
    }

    /// A request arrives and is acted on.
    pub(super) fn receive(&self, state: &mut State, reference: u8, decision: Option<Decision>) -> Reply {
        let Some(decision) = decision else {
            let first = state.charges.iter().position(|charge| charge.reference == reference);
            return match first {
                Some(first) if self.class == Class::Idempotent => Reply::Says(answer(state, first)),
                Some(_) | None => Reply::Repeated,
            };
        };
        let standing = match decision {
            Decision::Approve => Standing::Approved,
            Decision::Decline => Standing::Declined,
            Decision::Challenge => Standing::Pending,
            Decision::Refuse => return Reply::Says(Answer::Refused),
        };
        state.charges.push(Charge { reference, standing, unseen: self.lags, told: false, unwanted: false });
        if standing == Standing::Approved {
            note_approval(state);
        }
        Reply::Says(answer(state, state.charges.len() - 1))
    }

    /// What the report says of the operation's reference.
    pub(super) fn report(&self, state: &mut State, missed: bool) -> Option<Answer> {
        let reference = state.reference;
        let at = state.charges.iter().position(|charge| charge.reference == reference)?;
        let charge = &mut state.charges[at];
        charge.unseen = if missed { charge.unseen - 1 } else { 0 };
        (!missed).then(|| answer(state, at))
    }

    /// Whether a look-up may miss what is there.
    pub(super) fn may_miss(&self, state: &State) -> bool {
        let found = state.charges.iter().find(|charge| charge.reference == state.reference);
        found.is_some_and(|charge| charge.unseen > 0)
    }

    /// What the refusal of a repeated reference means.
    pub(super) fn is_decline(&self) -> bool {
        self.lacks(Flaw::RepeatIsDecline)
    }
}

/// The cardholder's money has moved.
pub(super) fn note_approval(state: &mut State) {
    if state.parent == Parent::Voided {
        state.parent = Parent::ChargedAfterVoid;
    }
}

fn answer(state: &State, at: usize) -> Answer {
    match state.charges[at].standing {
        Standing::Pending => Answer::Challenged,
        Standing::Approved | Standing::Reversed => Answer::Approved(u8::try_from(at).expect("three at most")),
        Standing::Declined => Answer::Declined,
    }
}

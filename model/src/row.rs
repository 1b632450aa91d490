//! A row of `operations`, and the four statements of `common/src/operations/store.rs` that change it. Each is one step here,
//! because each is one statement there.

/// How far an operation has come: `operations::State`, without `claimed`, which no charge passes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// The intent is not written.
    Absent,
    /// Written, and nobody's.
    Ready,
    /// A request may be under way.
    Sending,
    /// A request was sent and its answer lost.
    Unknown,
    /// The provider did it, and this is its name for it.
    Succeeded(u8),
    /// The provider said no.
    Declined,
    /// It certainly did not happen.
    Failed,
}

impl State {
    /// Whether nothing more will come of it.
    pub const fn is_final(self) -> bool {
        match self {
            Self::Succeeded(_) | Self::Declined | Self::Failed => true,
            Self::Absent | Self::Ready | Self::Sending | Self::Unknown => false,
        }
    }

    /// Whether it is written and has not ended.
    pub const fn is_open(self) -> bool {
        match self {
            Self::Ready | Self::Sending | Self::Unknown => true,
            Self::Absent | Self::Succeeded(_) | Self::Declined | Self::Failed => false,
        }
    }

    /// Whether a request may have gone out.
    pub const fn was_sent(self) -> bool {
        match self {
            Self::Sending | Self::Unknown => true,
            Self::Absent | Self::Ready | Self::Succeeded(_) | Self::Declined | Self::Failed => false,
        }
    }
}

/// What decides about an operation. Clocks are left out: what they would say is a flag that an action of the model sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    /// How far it has come.
    pub state: State,
    /// Whether `lease_until` lies ahead.
    pub leased: bool,
    /// Whether `last_sent_at` lies so far back that the request it tells of cannot be acted on.
    pub dead: bool,
    /// Look-ups that found nothing: `not_found`.
    pub not_found: u8,
    /// Whether `next_push_at` is empty, so that only a person goes on.
    pub for_a_person: bool,
}

/// What a claim hands to the worker: the part of `operations::Claimed` that decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Claim {
    /// Whether a request may have been sent before.
    pub sent_before: bool,
    /// Look-ups so far that found nothing.
    pub not_found: u8,
    /// Whether the last request can no longer be acted on.
    pub dead: bool,
}

impl Row {
    /// A row in this state, which nobody has touched.
    pub const fn new(state: State) -> Self {
        Self { state, leased: false, dead: false, not_found: 0, for_a_person: false }
    }

    /// `store::claim`. The caller takes the fence from whoever had it.
    pub fn claim(&mut self) -> Option<Claim> {
        if !self.state.is_open() || self.leased {
            return None;
        }
        let claim = Claim { sent_before: self.state.was_sent(), not_found: self.not_found, dead: self.dead };
        self.state = if claim.sent_before { State::Unknown } else { State::Sending };
        self.dead &= claim.sent_before;
        self.leased = true;
        self.for_a_person = false;
        Some(claim)
    }

    /// `store::sending_again`: whether the claim still is the latest, and the row open.
    pub fn sending_again(&mut self, fenced: bool, forget_look_ups: bool) -> bool {
        if !fenced || self.state.is_final() {
            return false;
        }
        self.leased = true;
        self.dead = false;
        self.for_a_person = false;
        if forget_look_ups {
            self.not_found = 0;
        }
        true
    }

    /// `store::leave_unknown`: of the latest claim alone, and of a row that has not ended.
    pub fn leave_unknown(&mut self, fenced: bool, by_a_person: bool, found_nothing: bool) {
        if fenced && !self.state.is_final() {
            self.state = State::Unknown;
            self.leased = false;
            self.for_a_person = by_a_person;
            self.not_found = if found_nothing { self.not_found + 1 } else { 0 };
        }
    }

    /// `store::breaker::put_back`: of the latest claim alone, of a row whose one request certainly did nothing.
    pub fn put_back(&mut self, fenced: bool) {
        if fenced && !self.state.is_final() && self.state != State::Absent {
            *self = Self::new(State::Ready);
        }
    }

    /// `store::finish`, and its twin in `flows/straight.rs`.
    pub fn finish(&mut self, state: State) {
        *self = Self::new(state);
    }
}

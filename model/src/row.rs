//! A row of `operations`, and the statements in `common/domain/src/operations` that change it. Each is one atomic step,
//! because each is one SQL statement.

/// The state of an operation: `operations::State`, and that there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum State {
    /// The intent is not written.
    Absent,
    /// Written and not claimed.
    Ready,
    /// A request may be in flight.
    Sending,
    /// A request was sent, and its outcome is unknown.
    Unknown,
    /// Succeeded with this index of the provider's transaction.
    Succeeded(u8),
    Declined,
    /// The operation certainly had no effect.
    Failed,
}

impl State {
    /// Whether the state can no longer change.
    pub const fn is_final(self) -> bool {
        match self {
            Self::Succeeded(_) | Self::Declined | Self::Failed => true,
            Self::Absent | Self::Ready | Self::Sending | Self::Unknown => false,
        }
    }

    /// Whether it is written and not final.
    pub const fn is_open(self) -> bool {
        match self {
            Self::Ready | Self::Sending | Self::Unknown => true,
            Self::Absent | Self::Succeeded(_) | Self::Declined | Self::Failed => false,
        }
    }

    /// Whether a request may have been sent.
    pub const fn was_sent(self) -> bool {
        match self {
            Self::Sending | Self::Unknown => true,
            Self::Absent | Self::Ready | Self::Succeeded(_) | Self::Declined | Self::Failed => false,
        }
    }
}

/// The columns that determine the protocol. There is no clock: actions of the model set flags instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Row {
    pub state: State,
    /// Whether `lease_until` is in the future.
    pub leased: bool,
    /// Whether `last_sent_at` is so long ago that no request can be processed any more (`last_request_expired`).
    pub requests_expired: bool,
    /// Number of look-ups that found nothing: `not_found`.
    pub not_found: u8,
    /// Whether `next_push_at` is null, so that only an operator continues.
    pub manual_review: bool,
}

/// The part of `charges::Claimed` that determines the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Claim {
    /// Whether a request may have been sent before.
    pub sent_before: bool,
    /// Number of look-ups so far that found nothing.
    pub not_found: u8,
    /// Whether the last request can no longer be processed.
    pub requests_expired: bool,
}

impl Row {
    /// A row in this state with no lease and no look-ups.
    pub const fn new(state: State) -> Self {
        Self { state, leased: false, requests_expired: false, not_found: 0, manual_review: false }
    }

    /// `charges::claim`. The caller moves the fencing token to the claiming worker.
    pub fn claim(&mut self) -> Option<Claim> {
        if !self.state.is_open() || self.leased {
            return None;
        }
        let claim = Claim {
            sent_before: self.state.was_sent(),
            not_found: self.not_found,
            requests_expired: self.requests_expired,
        };
        self.state = if claim.sent_before { State::Unknown } else { State::Sending };
        self.requests_expired &= claim.sent_before;
        self.leased = true;
        self.manual_review = false;
        Some(claim)
    }

    /// `charges::sending_again`. Returns whether the claim is still the latest and the row is not final.
    pub fn sending_again(&mut self, fenced: bool, reset_look_ups: bool) -> bool {
        if !fenced || self.state.is_final() {
            return false;
        }
        self.leased = true;
        self.requests_expired = false;
        self.manual_review = false;
        if reset_look_ups {
            self.not_found = 0;
        }
        true
    }

    /// `charges::leave_unknown`: only for the latest claim, and only if the row is not final.
    pub fn leave_unknown(&mut self, fenced: bool, manual_review: bool, found_nothing: bool) {
        if fenced && !self.state.is_final() {
            self.state = State::Unknown;
            self.leased = false;
            self.manual_review = manual_review;
            self.not_found = if found_nothing { self.not_found + 1 } else { 0 };
        }
    }

    /// `charges::requeue`: only for the latest claim, and only if the only request certainly had no effect.
    pub fn requeue(&mut self, fenced: bool) {
        if fenced && !self.state.is_final() && self.state != State::Absent {
            *self = Self::new(State::Ready);
        }
    }

    /// `charges::finish` and `charges::finish_charges`.
    pub fn finish(&mut self, state: State) {
        *self = Self::new(state);
    }
}

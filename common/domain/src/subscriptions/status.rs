//! The state machine of a subscription. [`Status::next`] lists every allowed transition.

/// The status of a subscription (docs/billing.md, Subscriptions).
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "subscription_status", rename_all = "snake_case")]
pub enum Status {
    /// The first cycle has not started.
    Scheduled,
    /// Billed; no invoice is unpaid after a failed attempt.
    Active,
    /// An attempt to collect an invoice failed, and the invoice is still unpaid.
    PastDue,
    /// No longer billed.
    Cancelled,
}

impl Status {
    /// All statuses.
    pub const ALL: [Self; 4] = [Self::Scheduled, Self::Active, Self::PastDue, Self::Cancelled];

    /// The name in the API.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Active => "active",
            Self::PastDue => "past_due",
            Self::Cancelled => "cancelled",
        }
    }

    /// The statuses that may follow this one.
    pub const fn next(self) -> &'static [Self] {
        match self {
            Self::Scheduled => &[Self::Active, Self::Cancelled],
            Self::Active => &[Self::PastDue, Self::Cancelled],
            Self::PastDue => &[Self::Active, Self::Cancelled],
            Self::Cancelled => &[],
        }
    }

    /// Whether this status may change to `next`.
    pub fn may_become(self, next: Self) -> bool {
        self.next().contains(&next)
    }

    /// The status after a cycle is billed; `None` if no cycle may be billed.
    pub const fn billed(self) -> Option<Self> {
        match self {
            Self::Scheduled | Self::Active => Some(Self::Active),
            Self::PastDue => Some(Self::PastDue),
            Self::Cancelled => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_but_cancelled_may_be_cancelled_and_none_becomes_scheduled() {
        for status in Status::ALL {
            assert_eq!(status.may_become(Status::Cancelled), status != Status::Cancelled, "{status:?}");
            assert!(!status.may_become(Status::Scheduled), "{status:?}");
            assert!(!status.may_become(status), "{status:?}");
        }
        assert!(Status::Cancelled.next().is_empty(), "it cannot be started again");
    }

    #[test]
    fn a_scheduled_subscription_is_never_past_due() {
        assert!(!Status::Scheduled.may_become(Status::PastDue));
    }

    #[test]
    fn cycles_are_billed_in_every_status_but_cancelled() {
        for status in Status::ALL {
            let billed = status.billed();
            assert_eq!(billed.is_none(), status == Status::Cancelled, "{status:?}");
            assert!(billed.is_none_or(|next| next == status || status.may_become(next)), "{status:?}");
        }
        assert_eq!(Status::PastDue.billed(), Some(Status::PastDue), "a new cycle does not pay the unpaid invoice");
    }
}

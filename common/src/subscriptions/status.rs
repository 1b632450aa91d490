//! The state machine of a subscription: pure, total, no wildcard. Every legal step stands in [`Status::next`].

/// Where a subscription stands (docs/billing.md, Subscriptions).
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "subscription_status", rename_all = "snake_case")]
pub enum Status {
    /// Its first cycle is still to come.
    Scheduled,
    /// Billed, and nothing is owed after an attempt to collect it.
    Active,
    /// An invoice of it could not be collected, and is still owed.
    PastDue,
    /// It is billed no more.
    Cancelled,
}

impl Status {
    /// Every status, for tests and documents.
    pub const ALL: [Self; 4] = [Self::Scheduled, Self::Active, Self::PastDue, Self::Cancelled];

    /// As the API prints it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Active => "active",
            Self::PastDue => "past_due",
            Self::Cancelled => "cancelled",
        }
    }

    /// The states that may follow this one.
    pub const fn next(self) -> &'static [Self] {
        match self {
            Self::Scheduled => &[Self::Active, Self::Cancelled],
            Self::Active => &[Self::PastDue, Self::Cancelled],
            Self::PastDue => &[Self::Active, Self::Cancelled],
            Self::Cancelled => &[],
        }
    }

    /// Whether the step is legal.
    pub fn may_become(self, next: Self) -> bool {
        self.next().contains(&next)
    }

    /// Where it stands once a cycle was billed; none if none may be.
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
    fn everything_but_the_end_may_be_cancelled_and_nothing_is_scheduled_again() {
        for status in Status::ALL {
            assert_eq!(status.may_become(Status::Cancelled), status != Status::Cancelled, "{status:?}");
            assert!(!status.may_become(Status::Scheduled), "{status:?}");
            assert!(!status.may_become(status), "{status:?}");
        }
        assert!(Status::Cancelled.next().is_empty(), "it cannot be started again");
    }

    #[test]
    fn what_was_never_billed_owes_nothing() {
        assert!(!Status::Scheduled.may_become(Status::PastDue));
    }

    #[test]
    fn a_cycle_is_billed_whatever_is_owed_and_never_after_the_end() {
        for status in Status::ALL {
            let billed = status.billed();
            assert_eq!(billed.is_none(), status == Status::Cancelled, "{status:?}");
            assert!(billed.is_none_or(|next| next == status || status.may_become(next)), "{status:?}");
        }
        assert_eq!(Status::PastDue.billed(), Some(Status::PastDue), "another cycle pays nothing");
    }
}

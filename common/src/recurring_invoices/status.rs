//! The state machine of a recurring invoice: pure, total, no wildcard. Every legal step stands in [`Status::next`].

/// Where a recurring invoice stands (docs/billing.md, Status of a recurring invoice).
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "recurring_invoice_status", rename_all = "snake_case")]
pub enum Status {
    /// It has a next date, and produces an invoice then.
    Active,
    /// The merchant has stopped it for a while.
    Paused,
    /// We have stopped it: its invoice could not be produced, three times in a row.
    Parked,
    /// It has no date left.
    Completed,
    /// Stopped for good.
    Cancelled,
}

impl Status {
    /// Every status, for tests and documents.
    pub const ALL: [Self; 5] = [Self::Active, Self::Paused, Self::Parked, Self::Completed, Self::Cancelled];

    /// As the API prints it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Parked => "parked",
            Self::Completed => "completed",
            Self::Cancelled => "cancelled",
        }
    }

    /// The states that may follow this one.
    pub const fn next(self) -> &'static [Self] {
        match self {
            Self::Active => &[Self::Paused, Self::Parked, Self::Completed, Self::Cancelled],
            // To resume after the last date is to complete.
            Self::Paused | Self::Parked => &[Self::Active, Self::Completed, Self::Cancelled],
            Self::Completed => &[Self::Cancelled],
            Self::Cancelled => &[],
        }
    }

    /// Whether the step is legal.
    pub fn may_become(self, next: Self) -> bool {
        self.next().contains(&next)
    }

    /// Whether it will never produce an invoice again.
    pub fn is_over(self) -> bool {
        !self.may_become(Self::Active) && self != Self::Active
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_not_cancelled_may_be_and_that_is_the_end() {
        for status in Status::ALL {
            assert_eq!(status.may_become(Status::Cancelled), status != Status::Cancelled, "{status:?}");
            assert!(!status.may_become(status), "{status:?}");
        }
        assert!(Status::Cancelled.next().is_empty(), "it cannot restart");
    }

    #[test]
    fn what_is_stopped_may_go_on_and_what_is_over_may_not() {
        for (status, may_go_on) in
            [(Status::Paused, true), (Status::Parked, true), (Status::Completed, false), (Status::Cancelled, false)]
        {
            assert_eq!(status.may_become(Status::Active), may_go_on, "{status:?}");
            assert_eq!(status.is_over(), !may_go_on, "{status:?}");
        }
        assert!(!Status::Active.is_over());
    }

    #[test]
    fn only_an_active_one_is_paused_or_parked() {
        for status in Status::ALL {
            for stopped in [Status::Paused, Status::Parked] {
                assert_eq!(status.may_become(stopped), status == Status::Active, "{status:?}");
            }
        }
    }
}

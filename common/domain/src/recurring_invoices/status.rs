//! The state machine of a recurring invoice. [`Status::next`] lists every allowed transition.

/// The status of a recurring invoice (docs/billing.md, Status of a recurring invoice).
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "recurring_invoice_status", rename_all = "snake_case")]
pub enum Status {
    /// Has a next cycle.
    Active,
    /// Stopped by the merchant; can be resumed.
    Paused,
    /// Stopped automatically after three consecutive failures; can be resumed.
    Parked,
    /// No date is left.
    Completed,
    Cancelled,
}

impl Status {
    /// All statuses.
    pub const ALL: [Self; 5] = [Self::Active, Self::Paused, Self::Parked, Self::Completed, Self::Cancelled];

    /// The name in the API.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Parked => "parked",
            Self::Completed => "completed",
            Self::Cancelled => "cancelled",
        }
    }

    /// The statuses that may follow this one.
    pub const fn next(self) -> &'static [Self] {
        match self {
            Self::Active => &[Self::Paused, Self::Parked, Self::Completed, Self::Cancelled],
            // Resuming after the last date completes the recurring invoice.
            Self::Paused | Self::Parked => &[Self::Active, Self::Completed, Self::Cancelled],
            Self::Completed => &[Self::Cancelled],
            Self::Cancelled => &[],
        }
    }

    /// Whether this status may change to `next`.
    pub fn may_become(self, next: Self) -> bool {
        self.next().contains(&next)
    }

    /// Whether no invoice will be created again.
    pub fn is_over(self) -> bool {
        !self.may_become(Self::Active) && self != Self::Active
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_other_status_may_be_cancelled_and_cancelled_is_final() {
        for status in Status::ALL {
            assert_eq!(status.may_become(Status::Cancelled), status != Status::Cancelled, "{status:?}");
            assert!(!status.may_become(status), "{status:?}");
        }
        assert!(Status::Cancelled.next().is_empty(), "it cannot be restarted");
    }

    #[test]
    fn stopped_ones_may_resume_and_ended_ones_may_not() {
        for (status, may_resume) in
            [(Status::Paused, true), (Status::Parked, true), (Status::Completed, false), (Status::Cancelled, false)]
        {
            assert_eq!(status.may_become(Status::Active), may_resume, "{status:?}");
            assert_eq!(status.is_over(), !may_resume, "{status:?}");
        }
        assert!(!Status::Active.is_over());
    }

    #[test]
    fn only_active_may_be_paused_or_parked() {
        for status in Status::ALL {
            for stopped in [Status::Paused, Status::Parked] {
                assert_eq!(status.may_become(stopped), status == Status::Active, "{status:?}");
            }
        }
    }
}

//! The state machine of an invoice. [`Status::next`] lists every allowed transition.

/// The status of an invoice (docs/billing.md, Invoices).
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "invoice_status", rename_all = "snake_case")]
pub enum Status {
    /// Not issued: nothing is owed yet.
    Draft,
    /// Issued and unpaid.
    Open,
    /// Unpaid, with automatic collection.
    Scheduled,
    /// Paid in full.
    Paid,
    Voided,
}

impl Status {
    /// All statuses.
    pub const ALL: [Self; 5] = [Self::Draft, Self::Open, Self::Scheduled, Self::Paid, Self::Voided];

    /// The name in the API.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Draft => "draft",
            Self::Open => "open",
            Self::Scheduled => "scheduled",
            Self::Paid => "paid",
            Self::Voided => "voided",
        }
    }

    /// The statuses that may follow this one.
    pub const fn next(self) -> &'static [Self] {
        match self {
            Self::Draft => &[Self::Open, Self::Voided],
            Self::Open => &[Self::Scheduled, Self::Paid, Self::Voided],
            Self::Scheduled => &[Self::Open, Self::Paid, Self::Voided],
            Self::Paid => &[Self::Voided],
            Self::Voided => &[],
        }
    }

    /// Whether this status may change to `next`.
    pub fn may_become(self, next: Self) -> bool {
        self.next().contains(&next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_but_voided_may_be_voided_and_none_becomes_a_draft() {
        for status in Status::ALL {
            assert_eq!(status.may_become(Status::Voided), status != Status::Voided, "{status:?}");
            assert!(!status.may_become(Status::Draft), "{status:?}");
            assert!(!status.may_become(status), "{status:?}");
        }
        assert!(Status::Voided.next().is_empty(), "a voided invoice cannot be reopened");
    }

    #[test]
    fn drafts_are_neither_collected_nor_paid() {
        assert!(!Status::Draft.may_become(Status::Scheduled) && !Status::Draft.may_become(Status::Paid));
    }
}

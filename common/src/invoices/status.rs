//! The state machine of an invoice: pure, total, no wildcard. Every legal step stands in [`Status::next`].

/// Where an invoice stands (docs/billing.md, Invoices).
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "invoice_status", rename_all = "snake_case")]
pub enum Status {
    /// Written, and not issued: nobody owes anything yet.
    Draft,
    /// Issued, and owed.
    Open,
    /// Owed, and to be collected by us.
    Scheduled,
    /// Paid in full.
    Paid,
    /// Taken back, whatever it was.
    Voided,
}

impl Status {
    /// Every status, for tests and documents.
    pub const ALL: [Self; 5] = [Self::Draft, Self::Open, Self::Scheduled, Self::Paid, Self::Voided];

    /// As the API prints it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Draft => "draft",
            Self::Open => "open",
            Self::Scheduled => "scheduled",
            Self::Paid => "paid",
            Self::Voided => "voided",
        }
    }

    /// The states that may follow this one.
    pub const fn next(self) -> &'static [Self] {
        match self {
            Self::Draft => &[Self::Open, Self::Voided],
            Self::Open => &[Self::Scheduled, Self::Paid, Self::Voided],
            Self::Scheduled => &[Self::Open, Self::Paid, Self::Voided],
            Self::Paid => &[Self::Voided],
            Self::Voided => &[],
        }
    }

    /// Whether the step is legal.
    pub fn may_become(self, next: Self) -> bool {
        self.next().contains(&next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_but_the_end_may_be_voided_and_nothing_becomes_a_draft() {
        for status in Status::ALL {
            assert_eq!(status.may_become(Status::Voided), status != Status::Voided, "{status:?}");
            assert!(!status.may_become(Status::Draft), "{status:?}");
            assert!(!status.may_become(status), "{status:?}");
        }
        assert!(Status::Voided.next().is_empty(), "it cannot be reopened");
    }

    #[test]
    fn a_draft_is_neither_collected_nor_paid() {
        assert!(!Status::Draft.may_become(Status::Scheduled) && !Status::Draft.may_become(Status::Paid));
    }
}

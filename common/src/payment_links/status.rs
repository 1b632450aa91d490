//! The state machine of a payment link: pure, total, no wildcard. Every legal step stands in [`Status::next`].

/// Where a link stands (docs/billing.md, Status of a payment link).
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "payment_link_status", rename_all = "snake_case")]
pub enum Status {
    /// It may be paid.
    Open,
    /// It was paid, once and for all.
    Paid,
    /// Its merchant has taken it back.
    Cancelled,
    /// Its time was up.
    Expired,
}

impl Status {
    /// Every status, for tests and documents.
    pub const ALL: [Self; 4] = [Self::Open, Self::Paid, Self::Cancelled, Self::Expired];

    /// As the API prints it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Paid => "paid",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
        }
    }

    /// The states that may follow this one.
    pub const fn next(self) -> &'static [Self] {
        match self {
            Self::Open => &[Self::Paid, Self::Cancelled, Self::Expired],
            Self::Paid | Self::Cancelled | Self::Expired => &[],
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
    fn an_open_link_ends_once_and_nothing_opens_it_again() {
        for status in Status::ALL {
            assert_eq!(status.next().is_empty(), status != Status::Open, "{status:?}");
            assert!(!status.may_become(Status::Open), "{status:?}");
        }
        for end in [Status::Paid, Status::Cancelled, Status::Expired] {
            assert!(Status::Open.may_become(end), "{end:?}");
        }
    }
}

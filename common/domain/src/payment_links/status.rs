//! The state machine of a payment link. [`Status::next`] lists every allowed transition.

/// The status of a link (docs/billing.md, Status of a payment link).
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "payment_link_status", rename_all = "snake_case")]
pub enum Status {
    Open,
    /// Stays paid, even if the payment is refunded.
    Paid,
    /// Cancelled by the merchant.
    Cancelled,
    Expired,
}

impl Status {
    /// All statuses.
    pub const ALL: [Self; 4] = [Self::Open, Self::Paid, Self::Cancelled, Self::Expired];

    /// The name in the API.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Paid => "paid",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
        }
    }

    /// The statuses that may follow this one.
    pub const fn next(self) -> &'static [Self] {
        match self {
            Self::Open => &[Self::Paid, Self::Cancelled, Self::Expired],
            Self::Paid | Self::Cancelled | Self::Expired => &[],
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
    fn an_open_link_ends_once_and_is_never_reopened() {
        for status in Status::ALL {
            assert_eq!(status.next().is_empty(), status != Status::Open, "{status:?}");
            assert!(!status.may_become(Status::Open), "{status:?}");
        }
        for end in [Status::Paid, Status::Cancelled, Status::Expired] {
            assert!(Status::Open.may_become(end), "{end:?}");
        }
    }
}

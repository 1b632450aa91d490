//! The state machine of a payment: pure, total, no wildcard. [`Status::next`] lists every legal transition.

/// The status of a payment (docs/payments.md, Payments).
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "payment_status", rename_all = "snake_case")]
pub enum Status {
    /// The provider's response is not yet known.
    Processing,
    /// The cardholder must authenticate.
    RequiresAction,
    /// Authorized in full, not captured.
    Authorized,
    /// Approved for less than the requested amount; captured or not.
    PartiallyAuthorized,
    PendingSettlement,
    Settled,
    PartiallyRefunded,
    Refunded,
    Declined,
    /// The provider certainly did not process it.
    Failed,
    Cancelled,
    /// The authorization expired.
    Expired,
}

impl Status {
    pub const ALL: [Self; 12] = [
        Self::Processing,
        Self::RequiresAction,
        Self::Authorized,
        Self::PartiallyAuthorized,
        Self::PendingSettlement,
        Self::Settled,
        Self::PartiallyRefunded,
        Self::Refunded,
        Self::Declined,
        Self::Failed,
        Self::Cancelled,
        Self::Expired,
    ];

    /// The name in the API.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Processing => "processing",
            Self::RequiresAction => "requires_action",
            Self::Authorized => "authorized",
            Self::PartiallyAuthorized => "partially_authorized",
            Self::PendingSettlement => "pending_settlement",
            Self::Settled => "settled",
            Self::PartiallyRefunded => "partially_refunded",
            Self::Refunded => "refunded",
            Self::Declined => "declined",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
        }
    }

    /// The statuses that may follow this one.
    pub const fn next(self) -> &'static [Self] {
        match self {
            Self::Processing => &[
                Self::RequiresAction,
                Self::Authorized,
                Self::PartiallyAuthorized,
                Self::PendingSettlement,
                Self::Declined,
                Self::Failed,
            ],
            Self::RequiresAction => {
                &[Self::Authorized, Self::PartiallyAuthorized, Self::PendingSettlement, Self::Declined, Self::Failed]
            }
            Self::Authorized => &[Self::PendingSettlement, Self::Cancelled, Self::Expired],
            // Captured money never expires: it settles or is returned.
            Self::PartiallyAuthorized => &[
                Self::PendingSettlement,
                Self::Settled,
                Self::PartiallyRefunded,
                Self::Refunded,
                Self::Cancelled,
                Self::Expired,
            ],
            Self::PendingSettlement => &[Self::Settled, Self::PartiallyRefunded, Self::Refunded, Self::Cancelled],
            Self::Settled => &[Self::PartiallyRefunded, Self::Refunded],
            Self::PartiallyRefunded => &[Self::Refunded],
            Self::Refunded | Self::Declined | Self::Failed | Self::Cancelled | Self::Expired => &[],
        }
    }

    /// Whether the transition is legal.
    pub fn may_become(self, next: Self) -> bool {
        self.next().contains(&next)
    }

    /// Whether the outcome is not yet known.
    pub const fn is_under_way(self) -> bool {
        matches!(self, Self::Processing | Self::RequiresAction)
    }

    /// Whether the charge ended without a settlement, so that no inquiry is needed.
    pub const fn ended_unsettled(self) -> bool {
        matches!(self, Self::Cancelled | Self::Expired | Self::Declined | Self::Failed)
    }

    /// The status of an approved charge.
    pub const fn of_approval(requested: i64, approved: i64, capture: bool) -> Self {
        if approved < requested {
            Self::PartiallyAuthorized
        } else if capture {
            Self::PendingSettlement
        } else {
            Self::Authorized
        }
    }

    /// The status after settlement. A refunded status stays: `settled` is a separate field.
    pub const fn of_settlement(self) -> Option<Self> {
        match self {
            Self::PendingSettlement | Self::PartiallyAuthorized => Some(Self::Settled),
            Self::PartiallyRefunded | Self::Refunded => Some(self),
            Self::Processing
            | Self::RequiresAction
            | Self::Authorized
            | Self::Settled
            | Self::Declined
            | Self::Failed
            | Self::Cancelled
            | Self::Expired => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn final_statuses_stay_final_and_every_status_leads_to_one() {
        for status in Status::ALL {
            let mut reached = vec![status];
            let mut i = 0;
            while i < reached.len() {
                for next in reached[i].next() {
                    if !reached.contains(next) {
                        reached.push(*next);
                    }
                }
                i += 1;
            }
            assert!(reached.iter().any(|s| s.next().is_empty()), "{status:?} never ends");
            assert!(!status.may_become(Status::Processing), "{status:?} may start again");
        }
    }

    #[test]
    fn approvals_and_settlements_are_legal_steps() {
        for (approved, capture) in [(100, true), (100, false), (50, true), (50, false)] {
            assert!(Status::Processing.may_become(Status::of_approval(100, approved, capture)));
        }
        assert_eq!(Status::of_approval(100, 50, true), Status::PartiallyAuthorized);
        for status in Status::ALL {
            match status.of_settlement() {
                Some(next) => assert!(next == status || status.may_become(next), "{status:?}"),
                None => assert!(!status.may_become(Status::Settled), "{status:?}"),
            }
        }
    }
}

//! The kinds of requests that a provider account is sent.

use std::time::Duration;

/// Timeout of a request to a provider.
pub const PROVIDER_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "operation_kind", rename_all = "snake_case")]
pub enum OperationKind {
    Sale,
    Authorize,
    /// Capture authorized money.
    Capture,
    Void,
    /// Return money to the card.
    Refund,
    /// Save a card.
    StoreCard,
    /// Cancel a charge that belongs to no payment.
    Reverse,
    /// Refund such a charge, because it could not be cancelled.
    ReverseByRefund,
}

impl OperationKind {
    pub const ALL: [Self; 8] = [
        Self::Sale,
        Self::Authorize,
        Self::Capture,
        Self::Void,
        Self::Refund,
        Self::StoreCard,
        Self::Reverse,
        Self::ReverseByRefund,
    ];

    /// Name in metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sale => "sale",
            Self::Authorize => "authorize",
            Self::Capture => "capture",
            Self::Void => "void",
            Self::Refund => "refund",
            Self::StoreCard => "store_card",
            Self::Reverse => "reverse",
            Self::ReverseByRefund => "reverse_by_refund",
        }
    }
}

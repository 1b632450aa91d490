//! A transaction in a provider's books, for an operator who compares it with ours.

use serde::Serialize;

use foundation::money::Money;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Booked {
    pub kind: BookedKind,
    pub state: BookedState,
    /// The amount of the transaction itself; `None` for a void.
    pub money: Option<Money>,
    /// Our reference, if the provider stores it with this transaction.
    pub reference: Option<String>,
    /// The provider's reference for the charge that it follows.
    pub charge: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BookedKind {
    /// A charge that is captured immediately.
    Sale,
    /// An authorization.
    Authorize,
    /// A capture of an authorization.
    Capture,
    Void,
    Refund,
    /// A transaction type that we never request.
    Other,
}

impl BookedKind {
    /// Name in the output of `ctl`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sale => "sale",
            Self::Authorize => "authorize",
            Self::Capture => "capture",
            Self::Void => "void",
            Self::Refund => "refund",
            Self::Other => "other",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BookedState {
    Approved,
    /// Not finished.
    Pending,
    /// Declined or not processed: no money moved.
    Failed,
}

impl BookedState {
    /// Name in the output of `ctl`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Approved => "approved",
            Self::Pending => "pending",
            Self::Failed => "failed",
        }
    }
}

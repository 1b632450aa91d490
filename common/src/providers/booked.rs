//! A transaction as a provider has it in its books, for a person who compares it with ours.

use serde::Serialize;

use crate::money::Money;

/// A transaction of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Booked {
    /// What it does.
    pub kind: BookedKind,
    /// How far it is.
    pub state: BookedState,
    /// How much, as far as that is of the transaction itself: a void has none.
    pub money: Option<Money>,
    /// Our reference, where the provider keeps it with this very transaction.
    pub reference: Option<String>,
    /// The provider's name for the charge that it follows.
    pub charge: Option<String>,
}

/// What a provider's transaction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BookedKind {
    /// It charges a card.
    Sale,
    /// It holds money.
    Authorize,
    /// It takes money that is held.
    Capture,
    /// It cancels a charge.
    Void,
    /// It gives money back.
    Refund,
    /// Something that we never ask for.
    Other,
}

impl BookedKind {
    /// As it is printed.
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

/// How far a provider's transaction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BookedState {
    /// It is done.
    Approved,
    /// It has not come to an end.
    Pending,
    /// It was declined, or not processed: nothing moved.
    Failed,
}

impl BookedState {
    /// As it is printed.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Approved => "approved",
            Self::Pending => "pending",
            Self::Failed => "failed",
        }
    }
}

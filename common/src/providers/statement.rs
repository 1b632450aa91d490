//! What a provider has booked, as it reports it: charges, and what followed them.

use super::{Answer, Standing};
use crate::money::Money;
use crate::time::Timestamp;

/// What a line of a statement is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A sale or an authorization.
    Charge,
    /// Money of an authorization was taken.
    Capture,
    /// A charge was cancelled.
    Void,
    /// Money of a charge was given back.
    Refund,
    /// Money was given to a card without a charge. We never ask for that.
    Credit,
}

impl Entry {
    /// Its name in the books, in logs and at the operator's command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Charge => "charge",
            Self::Capture => "capture",
            Self::Void => "void",
            Self::Refund => "refund",
            Self::Credit => "credit",
        }
    }
}

/// The charge that something follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Followed {
    /// The provider's name for it.
    pub provider_ref: String,
    /// The reference that it was made under.
    pub reference: String,
}

/// A line of a provider's statement: money that moved, or a charge that was cancelled.
#[derive(Clone, Debug)]
pub struct StatementLine {
    /// What it is about.
    pub entry: Entry,
    /// The reference that it came with; empty if it came with none.
    pub reference: String,
    /// The provider's name for it.
    pub provider_ref: String,
    /// How much. Of a void it is the whole charge, and not compared.
    pub money: Money,
    /// What it follows.
    pub follows: Option<Followed>,
    /// What was answered, or would be.
    pub answer: Answer,
    /// When the provider booked it, by its own clock.
    pub occurred_at: Timestamp,
}

/// How a charge stands, and what the provider has of it.
#[derive(Clone, Debug)]
pub struct ChargeReport {
    /// How it stands.
    pub standing: Standing,
    /// The charge and all that followed it. None of a provider that keeps no references (class C): nothing can be compared there.
    pub lines: Option<Vec<StatementLine>>,
}

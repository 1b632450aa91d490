//! A provider's statement: charges, their follow-ups and disputed money.

use super::{ChargeStatus, ProviderResponse, ReportedDispute};
use foundation::money::Money;
use foundation::time::Timestamp;

/// The kind of a statement line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A sale or an authorization.
    Charge,
    Capture,
    Void,
    Refund,
    /// A refund to a card without a charge. We never request that.
    Credit,
    /// Disputed money that was withdrawn.
    DisputeWithdrawn,
    /// Disputed money that was given back as the dispute was won.
    DisputeReinstated,
}

impl Entry {
    /// Name in the books, in logs and in `ctl`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Charge => "charge",
            Self::Capture => "capture",
            Self::Void => "void",
            Self::Refund => "refund",
            Self::Credit => "credit",
            Self::DisputeWithdrawn => "dispute_withdrawn",
            Self::DisputeReinstated => "dispute_reinstated",
        }
    }

    /// Whether it moves disputed money: no operation of ours requests that.
    pub const fn is_dispute(self) -> bool {
        match self {
            Self::DisputeWithdrawn | Self::DisputeReinstated => true,
            Self::Charge | Self::Capture | Self::Void | Self::Refund | Self::Credit => false,
        }
    }
}

/// The charge that a capture, void, refund or dispute belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParentCharge {
    /// The provider's reference for it.
    pub provider_ref: String,
    /// Our reference for it.
    pub reference: String,
}

/// A line of a provider's statement: money that moved, or a charge that was cancelled.
#[derive(Clone, Debug)]
pub struct StatementLine {
    pub entry: Entry,
    /// Our reference; empty if the transaction has none.
    pub reference: String,
    /// The provider's reference for it. For withdrawn money, that of the dispute.
    pub provider_ref: String,
    /// For a void, the amount of the charge, which is not compared.
    pub money: Money,
    pub follows: Option<ParentCharge>,
    /// The response to the request, or the one that it would have.
    pub response: ProviderResponse,
    /// When the provider booked it, by its own clock.
    pub occurred_at: Timestamp,
}

/// A part of a statement.
#[derive(Clone, Debug)]
pub struct Statement {
    pub lines: Vec<StatementLine>,
    /// Where the next part begins: all that was booked before is contained. `None` at the end.
    pub until: Option<Timestamp>,
    /// When the oldest transaction was entered that is still in progress. When it ends, it appears as a line of that time.
    /// `None` if there is none, or the provider lists transactions only by the time at which they end.
    pub unfinished_since: Option<Timestamp>,
}

impl Statement {
    /// Lines of which the provider returns at most `limit` at once.
    pub(crate) fn limited(lines: Vec<StatementLine>, limit: usize) -> Self {
        let until = lines.last().map(|line| line.occurred_at).filter(|_| lines.len() >= limit);
        Self { lines, until, unfinished_since: None }
    }
}

/// The status of a charge, its statement lines and its disputes.
#[derive(Clone, Debug)]
pub struct ChargeReport {
    pub status: ChargeStatus,
    /// The charge and its follow-ups, without disputed money. `None` for a provider that keeps no references (class C): nothing can be
    /// compared.
    pub lines: Option<Vec<StatementLine>>,
    /// All, also those that were decided. Empty for a provider that reports none.
    pub disputes: Vec<ReportedDispute>,
}

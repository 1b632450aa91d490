//! Omissions of one rule of the protocol.

/// An omitted rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// A claim neither locks the row nor checks its lease, so two concurrent claims succeed.
    ClaimWithoutLock,
    /// A repeated request gets a new reference.
    NewReference,
    /// In class B the request is sent again without a look-up.
    ResendWithoutLookUp,
    /// A single "not found" counts as the outcome.
    TrustNotFound,
    /// A "not found" counts while a request may be in flight.
    IgnoreInFlight,
    /// A single "not found" is enough to send again.
    OneLookUp,
    /// Look-ups from before a repeated request still count after it.
    KeepLookUps,
    /// The request is sent again when the provider may have forgotten its reference.
    ResendForgotten,
    /// In class C the request is sent again.
    ResendInClassC,
    /// An outcome is accepted only with the current fencing token.
    OutcomeByFence,
    /// An outcome overwrites a final one.
    OverwriteFinal,
    /// An invoice is voided without its lock.
    VoidWithoutLock,
    /// A timer marks unknown outcomes as failed.
    FailByTimer,
    /// The refusal of a repeated reference counts as a decline.
    RepeatIsDecline,
    /// "Not processed" is an outcome even after an earlier request.
    NotProcessedAfterResend,
    /// "Not processed" is an outcome although another worker has claimed the operation since.
    NotProcessedUnfenced,
    /// A row that was not processed is requeued although another worker has claimed the operation since.
    RequeueUnfenced,
    /// A refusal that the provider discards is an outcome although another worker has claimed the operation since.
    RefusalUnfenced,
    /// A second charge is not reversed.
    KeepSecondCharge,
}

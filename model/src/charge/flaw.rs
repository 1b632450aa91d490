//! What the protocol would be without one of its rules.

/// A rule left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// A claim neither locks the row nor looks at its lease: two who read it at once both find it untouched.
    ClaimWithoutLock,
    /// What is sent again gets a new reference.
    NewReference,
    /// In class B it is sent again without asking.
    ResendUnasked,
    /// One "not found" counts as the outcome.
    BelieveNotFound,
    /// A "not found" counts while a request may be in flight.
    IgnoreInFlight,
    /// One "not found" suffices to send again.
    OneLookUp,
    /// Look-ups made before a request was sent again count for that one too.
    KeepLookUps,
    /// In class C it is sent again.
    ResendInC,
    /// An outcome is matched by the fence.
    OutcomeByFence,
    /// An outcome overwrites another.
    OverwriteFinal,
    /// An invoice is voided without its lock.
    VoidWithoutLock,
    /// A timer calls the unknown failed.
    FailByTimer,
    /// The refusal of a repeated reference counts as a decline.
    RepeatIsDecline,
    /// "Not processed" is an outcome after an earlier request too.
    NotProcessedAfterAll,
    /// "Not processed" is an outcome although another worker has claimed the operation since.
    NotProcessedUnfenced,
    /// What was not processed is made ready again although another worker has claimed the operation since.
    PutBackUnfenced,
    /// A refusal that the provider forgets is an outcome although another worker has claimed the operation since.
    RefusalUnfenced,
    /// A second charge is not reversed.
    KeepSecondCharge,
}

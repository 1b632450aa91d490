//! How a provider's books and ours can differ.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// The provider has it, and none of our operations requested it, or we have not recorded its dispute.
    MissingWithUs,
    /// Our books have it as succeeded, and the provider does not have it.
    MissingAtProvider,
    /// The amounts differ.
    Amount,
    /// The provider executed it, and our books have another outcome or none, another provider reference, or another
    /// request.
    Status,
    /// The captured or refunded totals of a charge differ.
    Totals,
}

impl Difference {
    pub const ALL: [Self; 5] = [Self::MissingWithUs, Self::MissingAtProvider, Self::Amount, Self::Status, Self::Totals];

    /// Name in output and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MissingWithUs => "missing_with_us",
            Self::MissingAtProvider => "missing_at_provider",
            Self::Amount => "amount",
            Self::Status => "status",
            Self::Totals => "totals",
        }
    }
}

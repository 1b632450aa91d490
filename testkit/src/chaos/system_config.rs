//! The size of a system and the configuration of its processes.

use super::shop::ShopKind;

/// The number of processes of each kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) apis: usize,
    pub(super) workers: usize,
    pub(super) schedulers: usize,
    pub(super) gateways: usize,
}

/// The configuration of the system under test.
#[derive(Clone, Copy, Debug)]
pub(super) struct SystemConfig {
    pub(super) size: Size,
    pub(super) shops: &'static [ShopKind],
    /// The mock's latency in milliseconds.
    pub(super) latency: &'static str,
    /// Whether Postgres gets a disk of its own that can be filled.
    pub(super) disk: bool,
    /// Environment variables of all our processes.
    pub(super) environment: &'static [(&'static str, &'static str)],
    /// `FAILPOINTS` of the first worker.
    pub(super) failpoints: &'static str,
    /// Statements that drop constraints.
    pub(super) dropped_constraints: &'static [&'static str],
}

impl SystemConfig {
    /// The full system with all rules.
    pub(super) const FULL: Self = Self {
        size: Size { apis: 3, workers: 4, schedulers: 2, gateways: 2 },
        shops: &[
            ShopKind::Mock('A'),
            ShopKind::Mock('B'),
            ShopKind::Mock('C'),
            ShopKind::Gateway,
            ShopKind::Moved,
            ShopKind::Stripe,
            ShopKind::Clock('A'),
            ShopKind::Clock('B'),
        ],
        latency: "700",
        disk: true,
        environment: &[],
        failpoints: "",
        dropped_constraints: &[],
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fault that affects no merchant would still count as injected.
    #[test]
    fn the_full_system_has_a_merchant_for_every_fault() {
        for kind in [ShopKind::Moved, ShopKind::Gateway, ShopKind::Stripe] {
            assert!(SystemConfig::FULL.shops.contains(&kind), "{kind:?}");
        }
    }
}

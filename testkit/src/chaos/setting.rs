//! How large a world is, and what is told to its processes.

use super::world::Line;

/// How many processes of each kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) apis: usize,
    pub(super) workers: usize,
    pub(super) schedulers: usize,
    pub(super) gateways: usize,
}

/// What a run happens in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub(super) size: Size,
    pub(super) lines: &'static [Line],
    /// How slow the mock is, in milliseconds.
    pub(super) latency: &'static str,
    /// Whether Postgres has a disk of its own, which can be filled.
    pub(super) disk: bool,
    /// Variables of every process of ours.
    pub(super) environment: &'static [(&'static str, &'static str)],
    /// `FAILPOINTS` of the first worker.
    pub(super) failpoints: &'static str,
    /// Constraints that are taken away.
    pub(super) without: &'static [&'static str],
}

impl Setting {
    /// Everything, with every rule.
    pub(super) const WHOLE: Self = Self {
        size: Size { apis: 3, workers: 4, schedulers: 2, gateways: 2 },
        lines: &[
            Line::Mock('A'),
            Line::Mock('B'),
            Line::Mock('C'),
            Line::Gateway,
            Line::Moved,
            Line::Clock('A'),
            Line::Clock('B'),
        ],
        latency: "700",
        disk: true,
        environment: &[],
        failpoints: "",
        without: &[],
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fault without a merchant to happen to would count as having happened.
    #[test]
    fn a_whole_run_has_a_merchant_for_every_fault() {
        assert!(Setting::WHOLE.lines.contains(&Line::Moved));
    }
}

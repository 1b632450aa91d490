//! The result of one invariant.

#[derive(Clone, Debug)]
pub(in crate::chaos) struct Finding {
    pub(in crate::chaos) invariant: &'static str,
    pub(in crate::chaos) checked: u64,
    pub(in crate::chaos) violations: Vec<String>,
    /// The number of permitted exceptions.
    pub(in crate::chaos) exceptions: u64,
}

impl Finding {
    pub(in crate::chaos) fn new(invariant: &'static str) -> Self {
        Self { invariant, checked: 0, violations: Vec::new(), exceptions: 0 }
    }

    /// Records one check.
    pub(in crate::chaos) fn check(&mut self, holds: bool, violation: impl FnOnce() -> String) {
        self.checked += 1;
        if !holds {
            self.violations.push(violation());
        }
    }
}

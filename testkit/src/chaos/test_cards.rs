//! Test cards of the gateway.

pub(super) const APPROVES: &str = "4242424242424242";
pub(super) const INSUFFICIENT: &str = "4000000000009995";
pub(super) const LOST: &str = "4000000000009987";
pub(super) const CHALLENGED: &str = "4000002500003155";
/// Too short to search for alone, so it is searched for next to its field name.
pub(super) const CVV: &str = "739";

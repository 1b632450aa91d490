//! Webhook queries.

pub(super) mod deliveries;
pub(super) mod dispatch;
pub(super) mod endpoints;
pub(super) mod replays;
pub(super) mod signing;

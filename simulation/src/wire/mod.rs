//! Where a message ends, for each protocol of the virtual network.

pub mod postgres;
pub mod redis;

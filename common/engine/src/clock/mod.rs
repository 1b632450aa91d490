//! Test clocks, and accounts whose time is ahead of real time.

pub mod advance_clock;
pub mod advanced_clocks;

//! Behavior with large tables and old data.

mod plans;
mod retention;
mod sweeps;

//! Behavior with large tables and old data.

mod filters;
mod plans;
mod retention;
mod settlements;
mod statistics;
mod sweeps;

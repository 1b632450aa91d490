//! Behavior with large tables and old data.

mod filters;
mod gateway_plans;
mod plans;
mod retention;
mod settlements;
mod statistics;
mod sweeps;

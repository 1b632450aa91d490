//! What must hold when there is a lot of everything, and when it has grown old.

mod plans;
mod retention;
mod sweeps;

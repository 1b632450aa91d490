//! The guarantees of the queue under failures of Redis and of processes. Each test runs a Redis of its own.
//!
//! A wake-up may be lost with Redis, so the guarantee under failure is: consumers recover automatically, and everything
//! pushed again is handled. Times here are generous upper bounds, not measurements.

#![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests may lose spawned tasks, and may panic")]

mod faults;
mod host_name;
mod limits;
mod processes;
mod publishing;
mod read_only;
mod replies;
mod rig;
mod stopping;

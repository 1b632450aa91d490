//! What the queue promises whatever happens to Redis or to a process. Each test has a Redis of its own and breaks it as
//! it likes.
//!
//! A wake-up may be lost with Redis, so the promise under fault is: consumers come back by themselves, and everything
//! pushed again is handled. Times in here are upper bounds that show life, not measurements.

#![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test may lose what it spawns, and may panic")]

mod faults;
mod limits;
mod processes;
mod publishing;
mod refusing;
mod replying;
mod rig;
mod stopping;

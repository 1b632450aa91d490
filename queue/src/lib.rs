//! Wake-ups between processes, over Redis Streams.
//!
//! What is to be done, when and by whom stands in Postgres. This crate only says "look at this row, now": a [`Wake`]
//! carries an id and nothing else of worth. That decides every trade-off here:
//!
//! - A wake-up may be **lost** (FLUSHALL, a full disk, a trimmed stream). The sweep that reads Postgres hands the row
//!   out again.
//! - A wake-up may come **twice** (a paused process, a cut connection). The second one finds its row taken.
//! - Redis may be **away**. Publishing then fails within a second; consumers reconnect for ever and never end the
//!   worker.
//!
//! Delays, retries and their backoff are not here: they are columns. Nor is there a result: a handler answers `()`, and
//! the row says what happened.
//!
//! The parts: [`Redis`] says where it is, [`Publisher`] pushes, or posts where nobody waits, [`run`] consumes with one [`Pool`] per queue, [`Replies`] tells a waiting request
//! that its row has changed. Redis 7.0 or newer is needed.

mod ack;
mod backend;
mod backoff;
mod connection;
mod entry;
mod fetcher;
mod in_flight;
mod keeper;
mod meter;
mod name;
mod pool;
mod poster;
mod publisher;
mod replies;
mod shared;

pub use connection::{InvalidUrl, Redis};
pub use entry::Wake;
pub use name::Queue;
pub use pool::{Handler, Pool, Stopped, Timing, run};
pub use publisher::{Depth, Publisher, PushError};
pub use replies::{Replies, Waiter};
pub use shared::Connection;

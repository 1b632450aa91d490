//! Wake-ups between processes, over Redis Streams.
//!
//! Postgres holds the work, its schedule and its claims. This crate only signals that a row needs attention now: a
//! [`Wake`] carries the row's id. That decides every trade-off here:
//!
//! - A wake-up may be **lost** (FLUSHALL, a full disk, a trimmed stream). The scheduler's sweep of Postgres hands the
//!   row out again.
//! - A wake-up may arrive **twice** (a paused process, a broken connection). The second handler finds the row claimed.
//! - Redis may be **unavailable**. Publishing then fails within a second; consumers reconnect indefinitely and never
//!   end the worker.
//!
//! Delays, retries and their backoff are columns in Postgres. There are no results either: a handler returns `()`, and
//! the row contains the outcome.
//!
//! [`Redis`] holds the address, [`Publisher`] pushes wake-ups, [`run`] consumes them with one [`Pool`] per queue, and
//! [`Replies`] notifies a waiting request that its row has changed. Requires Redis 7.0 or newer.

mod ack;
mod backend;
mod background_publisher;
mod backoff;
mod connection;
mod entry;
mod fetcher;
mod in_flight;
mod maintenance;
mod meter;
mod name;
mod pool;
mod publisher;
mod pusher;
mod replies;
mod shared;
mod slots;
mod timing;

pub use connection::{InvalidUrl, Redis};
pub use entry::Wake;
pub use name::Queue;
pub use pool::{Handler, Pool, Stopped, run};
pub use publisher::{Depth, Publisher};
pub use pusher::PushError;
pub use replies::{Replies, Waiter};
pub use shared::Connection;
pub use slots::acquire_free;
pub use timing::Timing;

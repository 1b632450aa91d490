//! Processes transactions: the row is committed first, then the acquirer is called, then the outcome is written.
//! `enter.rs` enters charges, `challenge.rs` applies cardholders' decisions, and `change.rs` enters captures, voids and
//! refunds; `finish.rs` finishes all of them, and `recover.rs` finishes abandoned ones.

mod challenge;
pub mod change;
pub mod enter;
pub mod finish;
mod outcome;
mod recover;
mod rules;

use std::sync::Arc;

use foundation::clock::Clock;
use sqlx::PgPool;

use crate::accounts::CryptoKeys;
use crate::acquirer::Acquirer;
use crate::connections::ConnectionLimit;

/// Processes transactions. Cheap to clone.
#[derive(Clone)]
pub struct Processor {
    pub db: PgPool,
    /// Limits how many connections of `db` the requests of an account use.
    pub connections: Arc<ConnectionLimit>,
    pub acquirer: Acquirer,
    pub crypto: CryptoKeys,
    pub clock: Clock,
    /// The public base URL of this service, without a trailing slash. Challenge pages are below it.
    pub public_url: Arc<str>,
    /// Whether e-mails can be sent. Without that no receipts are created.
    pub sends_receipts: bool,
}

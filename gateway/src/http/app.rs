//! State shared by all requests.

use std::sync::Arc;

use foundation::clock::Clock;
use sqlx::PgPool;
use tokio_util::task::TaskTracker;

use super::rate_limits::RateLimits;
use super::stall_detector::StallDetector;
use crate::accounts::CryptoKeys;
use crate::processing::Processor;

/// Shared by all requests; cheap to clone.
#[derive(Clone)]
pub struct App {
    /// The database with the schema `gateway`.
    pub db: PgPool,
    /// The keys that hash and encrypt.
    pub crypto: CryptoKeys,
    pub clock: Clock,
    pub processor: Processor,
    /// Limits on browser requests and on failed authentication attempts.
    pub rate_limits: Arc<RateLimits>,
    /// Requests in progress. They continue when the client disconnects, and shutdown waits for them.
    pub work: TaskTracker,
    /// Detects that this process was suspended.
    pub stall_detector: StallDetector,
}

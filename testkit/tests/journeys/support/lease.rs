//! Clusters that a few tests share while they run.

use std::sync::{Arc, Weak};

use anyhow::Result;
use testkit::Cluster;
use tokio::sync::Mutex;

/// A cluster that ends with the last of the tests that use it at a time. An idle scheduler, with its Postgres, takes a
/// fortieth of a processor, so one that runs until the end of all tests costs more than some starts.
pub(crate) struct Lease(Mutex<Weak<Cluster>>);

impl Lease {
    pub(crate) const fn new() -> Self {
        Self(Mutex::const_new(Weak::new()))
    }

    /// The cluster that is running, or this one.
    pub(crate) async fn or_start(&self, start: impl Future<Output = Result<Cluster>>) -> Result<Arc<Cluster>> {
        let mut running = self.0.lock().await;
        if let Some(cluster) = running.upgrade() {
            return Ok(cluster);
        }
        let cluster = Arc::new(start.await?);
        *running = Arc::downgrade(&cluster);
        Ok(cluster)
    }
}

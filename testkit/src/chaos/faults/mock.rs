//! The behavior of the mock.

use std::time::Duration;

use tokio::time::timeout;

use crate::chaos::{shop::ShopKind, system::System};

const CTL_TIMEOUT: Duration = Duration::from_secs(3);

/// The accounts at the mock.
fn accounts(system: &System) -> Vec<&str> {
    let shops = system.shops.iter().filter(|shop| matches!(shop.kind, ShopKind::Mock(_)));
    shops.map(|shop| shop.account.id.as_str()).collect()
}

#[derive(Default)]
pub(super) struct Mock {
    must_reset_latency: bool,
    /// It rejects everything.
    is_out: bool,
}

impl Mock {
    /// Configures the behavior for an account. Returns whether it succeeded.
    pub(super) async fn configure(&self, system: &System, target: usize, options: &[&str]) -> bool {
        let accounts = accounts(system);
        let account = accounts[target % accounts.len()];
        // Options that are not repeated are reset.
        let outage: &[&str] = if self.is_out && !options.contains(&"--refuse") { &["--refuse"] } else { &[] };
        let arguments = [&["mock", "set", account], options, outage].concat();
        timeout(CTL_TIMEOUT, system.cluster.ctl(&arguments)).await.is_ok_and(|result| result.is_ok())
    }

    async fn configure_all(&self, system: &System, options: &[&str]) -> bool {
        for target in 0..accounts(system).len() {
            if !self.configure(system, target, options).await {
                return false;
            }
        }
        true
    }

    /// Sets the latency until it is reset.
    pub(super) async fn set_latency(&mut self, system: &System, milliseconds: &str) -> bool {
        self.must_reset_latency = true;
        self.configure_all(system, &["--latency-ms", milliseconds]).await
    }

    /// Requires the latency to be reset.
    pub(super) fn request_latency_reset(&mut self) {
        self.must_reset_latency = true;
    }

    /// Resets the latency if required, as soon as that is possible.
    pub(super) async fn reset_latency(&mut self, system: &System) {
        if self.must_reset_latency {
            self.must_reset_latency = !self.configure_all(system, &["--latency-ms", system.config.latency]).await;
        }
    }

    /// An outage for all accounts.
    pub(super) async fn start_outage(&mut self, system: &System) -> bool {
        self.is_out = true;
        self.configure_all(system, &["--refuse"]).await
    }

    pub(super) fn end_outage(&mut self) {
        (self.is_out, self.must_reset_latency) = (false, true);
    }
}

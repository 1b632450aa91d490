//! Outages of the card gateway and of Stripe.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use crate::{
    chaos::{
        fault_log::{FaultLog, RejectedRequests},
        system::System,
    },
    proxy::{Mode, Proxy},
};

/// The time in which a provider that rejects everything must be recognized.
const RECOGNITION_TIME: Duration = Duration::from_secs(5);

pub(super) fn set_mode(system: &System, mode: Mode) {
    let proxies = system.proxies.gateway.iter().chain(&system.proxies.stripe);
    proxies.for_each(|proxy: &Proxy| proxy.set_mode(mode));
}

/// An outage in which the gateway rejects all requests.
#[derive(Default)]
pub(super) struct Rejections {
    /// From when on they are counted.
    count_from: Option<Instant>,
}

impl Rejections {
    pub(super) fn start(&mut self, system: &System) {
        set_mode(system, Mode::TooManyRequests);
        self.count_from = Some(Instant::now() + RECOGNITION_TIME);
    }

    /// Counts the requests that were sent although the outage had lasted long enough to be recognized.
    pub(super) fn stop(&mut self, system: &System, fault_log: &mut FaultLog) {
        set_mode(system, Mode::Pass);
        let Some(start) = self.count_from.take() else { return };
        let milliseconds = Instant::now().saturating_duration_since(start).as_millis();
        let accounts = system.shops.iter().filter_map(|shop| Some((shop.gateway_account()?.username, 0)));
        let mut requests: BTreeMap<String, usize> = accounts.collect();
        for name in system.proxies.gateway.iter().flat_map(|proxy: &Proxy| proxy.rejected(start)) {
            *requests.entry(name).or_default() += 1;
        }
        for (account, requests) in requests {
            println!("           rejected {requests} requests of {account} in the last {milliseconds} ms");
            fault_log.rejected_requests.push(RejectedRequests { account, requests, milliseconds });
        }
    }
}

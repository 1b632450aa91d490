//! The client against various receivers on loopback, with the policy that allows it.

mod hostile;
mod lookups;
mod ordinary;
mod private_addresses;
mod receiver;
mod tls;
#[cfg(target_os = "linux")]
mod unread;

use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use tokio::runtime::Handle;
use tokio::time::{advance, pause, resume, sleep};

use super::{Bytes, Egress, Failure, HeaderMap, Policy, Resolver, Target, TruncatedResponse};
use foundation::clock::Clock;

/// More than a machine under load needs to respond.
const LONG: Duration = Duration::from_secs(60);

const LOCAL: Policy = Policy { allow_http: true, allow_loopback: true };
const TEST: Policy = Policy { allow_http: true, allow_loopback: false };

/// A resolver with configured answers, which counts lookups.
#[derive(Clone)]
struct Names {
    addresses: Arc<Mutex<Vec<IpAddr>>>,
    lookups: Arc<AtomicUsize>,
}

impl Names {
    fn resolving_to(addresses: &[&str]) -> Self {
        let names = Self { addresses: Arc::default(), lookups: Arc::default() };
        names.set(addresses);
        names
    }

    fn set(&self, addresses: &[&str]) {
        *self.addresses.lock().unwrap() = addresses.iter().map(|address| address.parse().unwrap()).collect();
    }

    fn lookups(&self) -> usize {
        self.lookups.load(Ordering::SeqCst)
    }
}

impl Resolver for Names {
    fn resolve(&self, _: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        self.lookups.fetch_add(1, Ordering::SeqCst);
        let addresses = self.addresses.lock().unwrap().clone();
        std::future::ready(Ok(addresses)).boxed()
    }
}

fn egress(timeout: Duration, names: &Names) -> Egress {
    Egress::with(timeout, Clock::system(), Arc::new(names.clone()), Vec::new())
}

/// A client for which every name resolves to loopback.
fn local_egress(timeout: Duration) -> Egress {
    egress(timeout, &Names::resolving_to(&["127.0.0.1"]))
}

fn target(url: &str, policy: Policy) -> Target {
    Target::parse(url, policy).unwrap()
}

/// Advances the clock of the timeouts, so that a timeout ends at a defined point of the exchange and not after so many
/// seconds, in which a slow machine may not get there.
async fn pass(time: Duration) {
    pause();
    advance(time).await;
    resume();
}

/// Polls until `condition` holds. Measured by the real clock, which [`pass`] does not advance.
async fn eventually(what: &str, condition: impl Fn() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < LONG, "timed out waiting until {what}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until at most `max` tasks are left.
async fn wait_for_tasks(max: usize) {
    eventually("the tasks of abandoned connections end", || Handle::current().metrics().num_alive_tasks() <= max).await;
}

async fn post(egress: &Egress, port: u16) -> Result<TruncatedResponse, Failure> {
    let target = target(&format!("http://receiver.test:{port}/hooks?a=1"), LOCAL);
    egress.post(&target, HeaderMap::new(), Bytes::from_static(b"{\"id\":1}")).await
}

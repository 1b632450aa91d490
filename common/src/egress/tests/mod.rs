//! The client against receivers of every sort, on loopback and by the policy that allows it.

mod hostile;
mod inward;
mod ordinary;
mod receiver;
mod tls;

use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::{Bytes, Egress, Failure, HeaderMap, Policy, Received, Resolver, Target};
use crate::clock::Clock;

/// What a machine under load needs to answer, and more.
const LONG: Duration = Duration::from_secs(60);
/// Of a receiver that never answers nothing else can come, so the wait may be short.
const SHORT: Duration = Duration::from_millis(300);

const LOCAL: Policy = Policy { allow_http: true, allow_loopback: true };
const TEST: Policy = Policy { allow_http: true, allow_loopback: false };

/// A resolver that knows what its tests tell it, and counts.
#[derive(Clone)]
struct Names {
    answer: Arc<Mutex<Vec<IpAddr>>>,
    asked: Arc<AtomicUsize>,
}

impl Names {
    fn all_are(answer: &[&str]) -> Self {
        let names = Self { answer: Arc::default(), asked: Arc::default() };
        names.now_are(answer);
        names
    }

    fn now_are(&self, answer: &[&str]) {
        *self.answer.lock().unwrap() = answer.iter().map(|address| address.parse().unwrap()).collect();
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Resolver for Names {
    fn resolve(&self, _: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let answer = self.answer.lock().unwrap().clone();
        std::future::ready(Ok(answer)).boxed()
    }
}

fn egress(timeout: Duration, names: &Names) -> Egress {
    Egress::with(timeout, Clock::system(), Arc::new(names.clone()), Vec::new())
}

/// A client for which every name is this machine.
fn here(timeout: Duration) -> Egress {
    egress(timeout, &Names::all_are(&["127.0.0.1"]))
}

fn target(url: &str, policy: Policy) -> Target {
    Target::parse(url, policy).unwrap()
}

async fn post(egress: &Egress, port: u16) -> Result<Received, Failure> {
    let target = target(&format!("http://receiver.test:{port}/hooks?a=1"), LOCAL);
    egress.post(&target, HeaderMap::new(), Bytes::from_static(b"{\"id\":1}")).await
}

//! A webhook receiver that keeps what it has received.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use testkit::receiver::{self, Reply, Request};

use super::eventually;

type Requests = Arc<Mutex<Vec<Request>>>;

fn lock(requests: &Requests) -> MutexGuard<'_, Vec<Request>> {
    requests.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A server on loopback. It stops when it is dropped.
pub(crate) struct Receiver {
    server: receiver::Receiver,
    requests: Requests,
}

impl std::ops::Deref for Receiver {
    type Target = receiver::Receiver;

    fn deref(&self) -> &Self::Target {
        &self.server
    }
}

impl Receiver {
    /// Starts to serve. `reply` decides how each request is handled.
    pub(crate) async fn start(reply: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Result<Self> {
        let requests = Requests::default();
        let recorded = Arc::clone(&requests);
        let server = receiver::Receiver::start(move |request| {
            lock(&recorded).push(request.clone());
            reply(request)
        });
        Ok(Self { server: server.await?, requests })
    }

    /// The requests on this path so far, in order of arrival.
    pub(crate) fn received(&self, path: &str) -> Vec<Request> {
        lock(&self.requests).iter().filter(|request| request.path == path).cloned().collect()
    }

    /// The number of requests on this path so far.
    pub(crate) fn count(&self, path: &str) -> usize {
        lock(&self.requests).iter().filter(|request| request.path == path).count()
    }

    /// Every request so far.
    pub(crate) fn all(&self) -> Vec<Request> {
        lock(&self.requests).clone()
    }

    /// Waits until at least `count` requests have arrived on this path and returns them.
    pub(crate) async fn wait_for_requests(&self, path: &str, count: usize) -> Result<Vec<Request>> {
        let arrived = async || Ok((self.count(path) >= count).then(|| self.received(path)));
        let requests = eventually(path, arrived).await;
        requests.with_context(|| format!("{} requests on {path} instead of {count}", self.count(path)))
    }
}

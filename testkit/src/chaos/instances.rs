//! The processes of one kind that clients call, as a load balancer sees them.

use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Debug)]
pub(super) struct Instances(Vec<(String, AtomicBool)>);

impl Instances {
    /// All are ready at first.
    pub(super) fn new(urls: Vec<String>) -> Self {
        Self(urls.into_iter().map(|url| (url, AtomicBool::new(true))).collect())
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn urls(&self) -> impl Iterator<Item = &String> {
        self.0.iter().map(|(url, _)| url)
    }

    pub(super) fn url(&self, index: usize) -> &str {
        &self.0[index].0
    }

    pub(super) fn is_ready(&self, index: usize) -> bool {
        self.0[index].1.load(Ordering::Relaxed)
    }

    pub(super) fn set_ready(&self, index: usize, ready: bool) {
        self.0[index].1.store(ready, Ordering::Relaxed);
    }

    /// The first ready one at or after `start`, wrapping around; `start` if none is ready.
    pub(super) fn ready_from(&self, start: usize) -> usize {
        (start..self.len()).chain(0..start).find(|index| self.is_ready(*index)).unwrap_or(start)
    }
}

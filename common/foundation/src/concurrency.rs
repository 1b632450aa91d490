//! Limits how much of one kind of work runs at once, because it takes memory or a processor.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::error::{Error, Result};

/// Limits how much of one kind of work runs at once.
#[derive(Debug)]
pub struct ConcurrencyLimit {
    free: Arc<Semaphore>,
    wait: Duration,
    busy: &'static str,
}

/// Permits one piece of work until it is dropped.
#[derive(Debug)]
pub struct Permit {
    _permits: Vec<OwnedSemaphorePermit>,
}

impl Permit {
    /// These bytes, which hold the permit: it is released with their last copy.
    pub fn hold(self, bytes: impl AsRef<[u8]> + Send + 'static) -> Bytes {
        Bytes::from_owner(Holder { bytes, _permit: self })
    }
}

struct Holder<B> {
    bytes: B,
    _permit: Permit,
}

impl<B: AsRef<[u8]>> AsRef<[u8]> for Holder<B> {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

impl ConcurrencyLimit {
    /// Permits `at_once` at the same time. A caller that waits longer than `wait` gets an error with the message `busy`.
    pub fn new(at_once: usize, wait: Duration, busy: &'static str) -> Self {
        Self { free: Arc::new(Semaphore::new(at_once)), wait, busy }
    }

    /// # Errors
    /// [`Error::Busy`] if no permit becomes free in time.
    pub async fn acquire(&self) -> Result<Permit> {
        self.acquire_from(&[&self.free]).await
    }

    /// Acquires a permit of each. A caller that waits for one holds none of the others, which somebody else can use meanwhile.
    async fn acquire_from(&self, semaphores: &[&Arc<Semaphore>]) -> Result<Permit> {
        let acquiring = async {
            let mut awaited = 0;
            loop {
                let permit = Arc::clone(semaphores[awaited]).acquire_owned().await?;
                match permits_of_others(semaphores, awaited) {
                    Ok(mut permits) => {
                        permits.push(permit);
                        return Ok::<_, AcquireError>(Permit { _permits: permits });
                    }
                    Err(missing) => awaited = missing,
                }
            }
        };
        let acquired = timeout(self.wait, acquiring).await.map_err(|_| Error::Busy(self.busy))?;
        acquired.map_err(|error| Error::internal(error.to_string()))
    }
}

/// A permit of each but one, or which of them has none.
fn permits_of_others(semaphores: &[&Arc<Semaphore>], one: usize) -> Result<Vec<OwnedSemaphorePermit>, usize> {
    let others = semaphores.iter().enumerate().filter(|(index, _)| *index != one);
    others.map(|(index, semaphore)| Arc::clone(semaphore).try_acquire_owned().map_err(|_| index)).collect()
}

/// A limit of which each owner can use only its quota at once, so that none keeps the others waiting.
pub struct FairConcurrencyLimit<K> {
    all: ConcurrencyLimit,
    quota: Box<dyn Fn(&K) -> usize + Send + Sync>,
    owners: Mutex<HashMap<K, Arc<Semaphore>>>,
}

impl<K: Eq + Hash> FairConcurrencyLimit<K> {
    /// Each owner has up to its `quota` of all permits at once.
    pub fn new(all: ConcurrencyLimit, quota: impl Fn(&K) -> usize + Send + Sync + 'static) -> Self {
        Self { all, quota: Box::new(quota), owners: Mutex::default() }
    }

    /// A permit that counts towards the quota of each of these owners.
    ///
    /// # Errors
    /// [`Error::Busy`] if no permit becomes free in time.
    pub async fn acquire(&self, owners: impl IntoIterator<Item = K>) -> Result<Permit> {
        let quotas: Vec<_> = owners.into_iter().map(|owner| self.quota_of(owner)).collect();
        let semaphores: Vec<_> = quotas.iter().chain([&self.all.free]).collect();
        self.all.acquire_from(&semaphores).await
    }

    fn quota_of(&self, owner: K) -> Arc<Semaphore> {
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        // A quota without a permit in use or a waiting caller is equal to a new one.
        owners.retain(|_, quota| Arc::strong_count(quota) > 1);
        let quota = (self.quota)(&owner);
        Arc::clone(owners.entry(owner).or_insert_with(|| Arc::new(Semaphore::new(quota))))
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::JoinSet;
    use tokio::time::{Instant, sleep};

    use super::*;

    fn limit(at_once: usize) -> ConcurrencyLimit {
        ConcurrencyLimit::new(at_once, Duration::from_secs(5), "too much at once")
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_waits_too_long_is_refused() -> Result<()> {
        let limit = limit(2);
        let (first, _second) = (limit.acquire().await?, limit.acquire().await?);
        assert!(matches!(limit.acquire().await, Err(Error::Busy("too much at once"))));
        drop(first);
        limit.acquire().await?;
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn an_owner_has_only_its_quota_of_the_permits() -> Result<()> {
        let limit = FairConcurrencyLimit::new(limit(3), |_| 2);
        let (first, _second) = (limit.acquire(["one"]).await?, limit.acquire(["one"]).await?);
        assert!(matches!(limit.acquire(["one"]).await, Err(Error::Busy(_))), "its quota is used up");
        let third = limit.acquire(["other"]).await?;
        assert!(matches!(limit.acquire(["other"]).await, Err(Error::Busy(_))), "there are no more permits");
        drop(first);
        let _fourth = limit.acquire(["one"]).await?;
        drop(third);
        limit.acquire(["other"]).await?;
        assert_eq!(limit.quota_of("third").available_permits(), 2);
        let owners = limit.owners.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(!owners.contains_key("other"), "an owner without a permit is forgotten");
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_waits_for_a_quota_uses_no_other() -> Result<()> {
        let limit = Arc::new(FairConcurrencyLimit::new(limit(9), |_| 2));
        let held = (limit.acquire(["full"]).await?, limit.acquire(["full"]).await?);
        let mut waiting = JoinSet::new();
        for owners in [["network", "full"], ["full", "network"]] {
            let limit = Arc::clone(&limit);
            waiting.spawn(async move { limit.acquire(owners).await.map(drop) });
        }
        sleep(Duration::from_secs(1)).await;
        let began = Instant::now();
        let others = (limit.acquire(["network", "other"]).await?, limit.acquire(["other", "network"]).await?);
        assert_eq!(began.elapsed(), Duration::ZERO, "the quota of the network was free");
        drop(held);
        sleep(Duration::from_secs(1)).await;
        limit.acquire(["full"]).await?;
        drop(others);
        while let Some(acquired) = waiting.join_next().await {
            acquired.expect("no panic")?;
        }
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn a_permit_counts_for_all_its_owners_until_the_bytes_that_hold_it_are_gone() -> Result<()> {
        let limit = FairConcurrencyLimit::new(limit(9), |owner: &&str| owner.len());
        let held = limit.acquire(["a", "wide"]).await?.hold("bytes");
        assert!(matches!(limit.acquire(["a"]).await, Err(Error::Busy(_))), "a quota of one");
        let _others =
            (limit.acquire(["wide"]).await?, limit.acquire(["b", "wide"]).await?, limit.acquire(["wide"]).await?);
        assert!(matches!(limit.acquire(["c", "wide"]).await, Err(Error::Busy(_))), "a quota of four");
        limit.acquire(["c"]).await?;
        let copy = held.clone();
        drop(held);
        assert!(matches!(limit.acquire(["wide"]).await, Err(Error::Busy(_))), "a copy of the bytes is left");
        assert_eq!(copy, "bytes");
        drop(copy);
        limit.acquire(["a", "wide"]).await?;
        Ok(())
    }
}

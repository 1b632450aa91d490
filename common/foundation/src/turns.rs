//! Turns at work of which a process does only so much at once, because it takes memory or a processor.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::error::{Error, Result};

/// The turns at one kind of work.
#[derive(Debug)]
pub struct Turns {
    free: Arc<Semaphore>,
    wait: Duration,
    busy: &'static str,
}

/// A turn, which lasts until it is dropped.
#[derive(Debug)]
pub struct Turn {
    _permits: Vec<OwnedSemaphorePermit>,
}

impl Turn {
    /// These bytes, which hold the turn: it ends with their last copy.
    pub fn hold(self, bytes: impl AsRef<[u8]> + Send + 'static) -> Bytes {
        Bytes::from_owner(Holder { bytes, _turn: self })
    }
}

struct Holder<B> {
    bytes: B,
    _turn: Turn,
}

impl<B: AsRef<[u8]>> AsRef<[u8]> for Holder<B> {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

impl Turns {
    /// This many at once. Who waits longer than `wait` gets an error with the message `busy`.
    pub fn new(at_once: usize, wait: Duration, busy: &'static str) -> Self {
        Self { free: Arc::new(Semaphore::new(at_once)), wait, busy }
    }

    /// # Errors
    /// [`Error::Busy`] if the turn does not come in time.
    pub async fn take(&self) -> Result<Turn> {
        self.acquire(&[&self.free]).await
    }

    async fn acquire(&self, semaphores: &[&Arc<Semaphore>]) -> Result<Turn> {
        let acquiring = async {
            let mut permits = Vec::with_capacity(semaphores.len());
            for semaphore in semaphores {
                permits.push(Arc::clone(semaphore).acquire_owned().await?);
            }
            Ok::<_, AcquireError>(Turn { _permits: permits })
        };
        let acquired = timeout(self.wait, acquiring).await.map_err(|_| Error::Busy(self.busy))?;
        acquired.map_err(|error| Error::internal(error.to_string()))
    }
}

/// Turns of which each owner has only some at once, so that none keeps the others waiting.
#[derive(Debug)]
pub struct SharedTurns<K> {
    all: Turns,
    share: fn(&K) -> usize,
    owners: Mutex<HashMap<K, Arc<Semaphore>>>,
}

impl<K: Eq + Hash> SharedTurns<K> {
    /// Of all turns, each owner has up to its `share` at once.
    pub fn new(all: Turns, share: fn(&K) -> usize) -> Self {
        Self { all, share, owners: Mutex::default() }
    }

    /// A turn that counts for each of these owners.
    ///
    /// # Errors
    /// [`Error::Busy`] if the turn does not come in time.
    pub async fn take(&self, owners: impl IntoIterator<Item = K>) -> Result<Turn> {
        let shares: Vec<_> = owners.into_iter().map(|owner| self.share_of(owner)).collect();
        // First of the owners' shares: who waits for those takes nothing from the others.
        let semaphores: Vec<_> = shares.iter().chain([&self.all.free]).collect();
        self.all.acquire(&semaphores).await
    }

    fn share_of(&self, owner: K) -> Arc<Semaphore> {
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        // A share without a turn in use or a waiting caller is equal to a new one.
        owners.retain(|_, share| Arc::strong_count(share) > 1);
        let share = (self.share)(&owner);
        Arc::clone(owners.entry(owner).or_insert_with(|| Arc::new(Semaphore::new(share))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(at_once: usize) -> Turns {
        Turns::new(at_once, Duration::from_secs(5), "too much at once")
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_that_does_not_come_in_time_is_refused() -> Result<()> {
        let turns = turns(2);
        let (first, _second) = (turns.take().await?, turns.take().await?);
        assert!(matches!(turns.take().await, Err(Error::Busy("too much at once"))));
        drop(first);
        turns.take().await?;
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn an_owner_has_only_a_share_of_the_turns() -> Result<()> {
        let turns = SharedTurns::new(turns(3), |_| 2);
        let (first, _second) = (turns.take(["one"]).await?, turns.take(["one"]).await?);
        assert!(matches!(turns.take(["one"]).await, Err(Error::Busy(_))), "its share is used up");
        let third = turns.take(["other"]).await?;
        assert!(matches!(turns.take(["other"]).await, Err(Error::Busy(_))), "there are no more turns");
        drop(first);
        let _fourth = turns.take(["one"]).await?;
        drop(third);
        turns.take(["other"]).await?;
        assert_eq!(turns.share_of("third").available_permits(), 2);
        let owners = turns.owners.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(!owners.contains_key("other"), "an owner without a turn is forgotten");
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_counts_for_all_its_owners_until_the_bytes_that_hold_it_are_gone() -> Result<()> {
        let turns = SharedTurns::new(turns(9), |owner: &&str| owner.len());
        let held = turns.take(["a", "wide"]).await?.hold("bytes");
        assert!(matches!(turns.take(["a"]).await, Err(Error::Busy(_))), "a share of one");
        let _others = (turns.take(["wide"]).await?, turns.take(["b", "wide"]).await?, turns.take(["wide"]).await?);
        assert!(matches!(turns.take(["c", "wide"]).await, Err(Error::Busy(_))), "a share of four");
        turns.take(["c"]).await?;
        let copy = held.clone();
        drop(held);
        assert!(matches!(turns.take(["wide"]).await, Err(Error::Busy(_))), "a copy of the bytes is left");
        assert_eq!(copy, "bytes");
        drop(copy);
        turns.take(["a", "wide"]).await?;
        Ok(())
    }
}

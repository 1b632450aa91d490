//! Slots of what a process does at the same time.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Waits for a free slot and acquires all that are free, so that as much work can be claimed at once. Only one task may
/// acquire the slots of a semaphore.
///
/// # Panics
/// If the semaphore is closed, or another task acquires its slots too.
pub async fn acquire_free(slots: &Arc<Semaphore>) -> OwnedSemaphorePermit {
    const OPEN: &str = "the semaphore is never closed";
    let mut free = Arc::clone(slots).acquire_owned().await.expect(OPEN);
    // No other task acquires, so the number of available permits cannot shrink here.
    let more = u32::try_from(slots.available_permits()).unwrap_or(u32::MAX);
    free.merge(Arc::clone(slots).try_acquire_many_owned(more).expect(OPEN));
    free
}

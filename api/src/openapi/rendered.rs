//! Values that are expensive to compute, and are computed once.

use std::sync::Arc;

use foundation::error::{Error, Result};
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;

/// Computed once, on the blocking pool, so request threads stay free.
pub(super) struct Rendered<T> {
    value: OnceCell<T>,
    compute: Arc<dyn Fn() -> T + Send + Sync>,
}

impl<T: Clone + Send + Sync + 'static> Rendered<T> {
    pub(super) fn new(compute: impl Fn() -> T + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { value: OnceCell::new(), compute: Arc::new(compute) })
    }

    /// # Errors
    /// Only if the computation panicked.
    pub(super) async fn get(&self) -> Result<T> {
        let begin = || {
            let compute = Arc::clone(&self.compute);
            spawn_blocking(move || compute())
        };
        let value = self.value.get_or_try_init(begin).await;
        value.cloned().map_err(|error| Error::internal(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Mutex, mpsc};
    use std::time::Duration;

    use super::*;

    /// In a process with one thread for requests.
    #[tokio::test]
    async fn requests_are_served_while_something_is_made() {
        let ((send, receive), count) = (mpsc::channel(), Arc::new(AtomicUsize::new(0)));
        let (receive, counted) = (Mutex::new(receive), Arc::clone(&count));
        let made = Rendered::new(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            receive.lock().expect("not poisoned").recv_timeout(Duration::from_secs(10)).ok()
        });
        let other = async { send.send("served meanwhile").expect("it is still being made") };
        let (first, second, ()) = tokio::join!(made.get(), made.get(), other);
        for got in [first, second, made.get().await] {
            assert_eq!(got.expect("made"), Some("served meanwhile"));
        }
        assert_eq!(count.load(Ordering::Relaxed), 1);
    }
}

//! Values that are expensive to compute, and are computed once.

use std::sync::{Arc, LazyLock};

use foundation::error::{Error, Result};
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use tokio::task::spawn_blocking;

/// Computed once, on the blocking pool, so request threads stay free; to its end, also if the first client leaves.
pub(super) struct Rendered<T>(LazyLock<Computing<T>, Box<dyn FnOnce() -> Computing<T> + Send>>);

type Computing<T> = Shared<BoxFuture<'static, Result<T, String>>>;

impl<T: Clone + Send + Sync + 'static> Rendered<T> {
    pub(super) fn new(compute: impl FnOnce() -> T + Send + 'static) -> Arc<Self> {
        let begin =
            || spawn_blocking(compute).map(|computed| computed.map_err(|error| error.to_string())).boxed().shared();
        Arc::new(Self(LazyLock::new(Box::new(begin))))
    }

    /// # Errors
    /// Only if the computation panicked.
    pub(super) async fn get(&self) -> Result<T> {
        self.0.clone().await.map_err(Error::internal)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// In a process with one thread for requests.
    #[tokio::test]
    async fn requests_are_served_while_something_is_made() {
        let ((send, receive), count) = (mpsc::channel(), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&count);
        let made = Rendered::new(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            receive.recv_timeout(Duration::from_secs(10)).ok()
        });
        assert!(made.get().now_or_never().is_none(), "the first client leaves");
        let other = async { send.send("served meanwhile").expect("it is still being made") };
        let (first, second, ()) = tokio::join!(made.get(), made.get(), other);
        for got in [first, second, made.get().await] {
            assert_eq!(got.expect("made"), Some("served meanwhile"));
        }
        assert_eq!(count.load(Ordering::Relaxed), 1);
    }
}

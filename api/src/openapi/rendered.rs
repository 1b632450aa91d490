//! What takes a processor for a while to make, and is made once.

use std::sync::Arc;

use foundation::error::{Error, Result};
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;

/// What is made at its first use, by a thread that serves no requests: those that serve them would answer none meanwhile.
pub(super) struct Rendered<T> {
    made: OnceCell<T>,
    make: Arc<dyn Fn() -> T + Send + Sync>,
}

impl<T: Clone + Send + Sync + 'static> Rendered<T> {
    pub(super) fn new(make: impl Fn() -> T + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { made: OnceCell::new(), make: Arc::new(make) })
    }

    /// # Errors
    /// Only if it could not be made.
    pub(super) async fn get(&self) -> Result<T> {
        let begin = || {
            let make = Arc::clone(&self.make);
            spawn_blocking(move || make())
        };
        let made = self.made.get_or_try_init(begin).await;
        made.cloned().map_err(|error| Error::internal(error.to_string()))
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

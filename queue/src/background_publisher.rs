//! Asynchronous publishing: callers queue wake-ups here, and a background task pushes them in batches.
//!
//! Posting never blocks, whether Redis is fast, slow or unavailable. Under load one round trip carries many wake-ups,
//! and duplicates for the same row are merged.

use std::collections::HashSet;

use tokio::sync::{mpsc, oneshot};
use tracing::warn;

use crate::pusher::Pusher;
use crate::{Queue, Wake};

/// Wake-ups beyond this are dropped and counted; the sweep hands out their rows.
const CAPACITY: usize = 10_000;
/// Wake-ups pushed in one round trip.
const BATCH: usize = 500;

enum Post {
    Wake(Queue, Wake),
    /// Notified once everything before it has been pushed.
    Flush(oneshot::Sender<()>),
}

/// Queues wake-ups. The background task ends when the last clone is dropped and everything has been pushed.
#[derive(Clone)]
pub(crate) struct BackgroundPublisher {
    posts: mpsc::Sender<Post>,
}

impl BackgroundPublisher {
    pub(crate) fn start(pusher: Pusher) -> Self {
        let (sender, posts) = mpsc::channel(CAPACITY);
        #[expect(clippy::disallowed_methods, reason = "wake-ups are hints and may be lost")]
        tokio::spawn(push_all(pusher, posts));
        Self { posts: sender }
    }

    pub(crate) fn post(&self, queue: Queue, wake: Wake) {
        if self.posts.try_send(Post::Wake(queue, wake)).is_err() {
            metrics::counter!("queue_posts_dropped_total", "queue" => queue.name()).increment(1);
        }
    }

    pub(crate) async fn flush(&self) {
        let (flushed, done) = oneshot::channel();
        if self.posts.send(Post::Flush(flushed)).await.is_ok() {
            let _ = done.await;
        }
    }
}

async fn push_all(pusher: Pusher, mut posts: mpsc::Receiver<Post>) {
    let mut batch = Vec::with_capacity(BATCH);
    while posts.recv_many(&mut batch, BATCH).await > 0 {
        let (mut wakes, mut flushed, mut seen) = (Vec::with_capacity(batch.len()), Vec::new(), HashSet::new());
        for post in batch.drain(..) {
            match post {
                Post::Wake(queue, wake) if seen.insert((queue, wake.id)) => wakes.push((queue, wake)),
                Post::Wake(..) => {}
                Post::Flush(done) => flushed.push(done),
            }
        }
        if let Err(error) = pusher.push(&wakes).await {
            metrics::counter!("queue_posts_failed_total").increment(wakes.len() as u64);
            warn!(%error, count = wakes.len(), "could not push wake-ups; the sweep hands out their rows");
        }
        for done in flushed {
            let _ = done.send(());
        }
    }
}

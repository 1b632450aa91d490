//! Asynchronous publishing: callers queue wake-ups and replies here, and a background task sends them in batches.
//!
//! Posting never blocks, whether Redis is fast, slow or unavailable. Under load one round trip carries many of them, and
//! duplicate wake-ups for the same row are merged.

use std::collections::HashSet;

use tokio::sync::{mpsc, oneshot};
use tracing::warn;
use uuid::Uuid;

use crate::pusher::Pusher;
use crate::{Queue, Wake};

/// Wake-ups and replies beyond this are dropped and counted. The sweep enqueues the rows of the wake-ups; who waits for a
/// reply polls.
const CAPACITY: usize = 10_000;
/// Wake-ups and replies sent in one round trip.
const BATCH: usize = 500;

enum Post {
    Wake(Queue, Wake),
    /// A channel, and the id of the row that has changed.
    Reply(String, Uuid),
    /// Notified once everything before it has been pushed.
    Flush(oneshot::Sender<()>),
}

/// Queues wake-ups and replies. The background task ends when the last clone is dropped and everything has been pushed.
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

    pub(crate) fn post_reply(&self, channel: String, id: Uuid) {
        if self.posts.try_send(Post::Reply(channel, id)).is_err() {
            metrics::counter!("queue_replies_dropped_total").increment(1);
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
        let (mut wakes, mut replies, mut flushed, mut seen) = (Vec::new(), Vec::new(), Vec::new(), HashSet::new());
        for post in batch.drain(..) {
            match post {
                Post::Wake(queue, wake) if seen.insert((queue, wake.id)) => wakes.push((queue, wake)),
                Post::Wake(..) => {}
                Post::Reply(channel, id) => replies.push((channel, id)),
                Post::Flush(done) => flushed.push(done),
            }
        }
        if let Err(error) = pusher.push(&wakes, &replies).await {
            metrics::counter!("queue_posts_failed_total").increment(wakes.len() as u64);
            warn!(
                %error, count = wakes.len(), replies = replies.len(),
                "could not push wake-ups and replies; the sweep enqueues their rows, and waiting requests poll Postgres"
            );
        }
        for done in flushed {
            let _ = done.send(());
        }
    }
}

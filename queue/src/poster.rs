//! Wake-ups that nobody waits for: they are put down here, and a task of this process pushes what has come together.
//!
//! Whoever puts one down pays nothing for it, whether Redis is quick, slow or away. Under load many travel in one round
//! trip, and of two for the same row one: a wake-up only says "look".

use std::collections::HashSet;

use tokio::sync::{mpsc, oneshot};
use tracing::warn;

use crate::publisher::Pusher;
use crate::{Queue, Wake};

/// Most that may lie here. What comes on top is dropped and counted; the sweep brings it back.
const ROOM: usize = 10_000;
/// Most that travel in one round trip.
const BATCH: usize = 500;

enum Post {
    Wake(Queue, Wake),
    /// To be told once all before it has been pushed.
    Flush(oneshot::Sender<()>),
}

/// Where wake-ups are put down. The task goes on until the last clone is dropped and all has been pushed.
#[derive(Clone)]
pub(crate) struct Poster {
    room: mpsc::Sender<Post>,
}

impl Poster {
    pub(crate) fn start(pusher: Pusher) -> Self {
        let (room, posts) = mpsc::channel(ROOM);
        #[expect(clippy::disallowed_methods, reason = "wake-ups are hints and may be lost")]
        tokio::spawn(push_all(pusher, posts));
        Self { room }
    }

    pub(crate) fn post(&self, queue: Queue, wake: Wake) {
        if self.room.try_send(Post::Wake(queue, wake)).is_err() {
            metrics::counter!("queue_posts_dropped_total", "queue" => queue.name()).increment(1);
        }
    }

    pub(crate) async fn flush(&self) {
        let (flushed, done) = oneshot::channel();
        if self.room.send(Post::Flush(flushed)).await.is_ok() {
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
            warn!(%error, count = wakes.len(), "wake-ups were not pushed; the sweep hands their rows out");
        }
        for done in flushed {
            let _ = done.send(());
        }
    }
}

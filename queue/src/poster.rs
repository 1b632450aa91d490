//! Wake-ups that nobody waits for: they are put down here, and a task of this process pushes what has come together.
//!
//! Whoever puts one down pays nothing for it, whether Redis is quick, slow or away. Under load many travel in one round
//! trip, and of two for the same row one: a wake-up only says "look".

use std::collections::HashSet;

use tokio::sync::mpsc;
use tracing::warn;

use crate::publisher::Pusher;
use crate::{Queue, Wake};

/// Most that may lie here. What comes on top is dropped and counted; the sweep brings it back.
const ROOM: usize = 10_000;
/// Most that travel in one round trip.
const BATCH: usize = 500;

/// Where wake-ups are put down. The task goes on until the last clone is dropped and all has been pushed.
#[derive(Clone)]
pub(crate) struct Poster {
    room: mpsc::Sender<(Queue, Wake)>,
}

impl Poster {
    pub(crate) fn start(pusher: Pusher) -> Self {
        let (room, posts) = mpsc::channel(ROOM);
        #[expect(clippy::disallowed_methods, reason = "wake-ups are hints and may be lost")]
        tokio::spawn(push_all(pusher, posts));
        Self { room }
    }

    pub(crate) fn post(&self, queue: Queue, wake: Wake) {
        if self.room.try_send((queue, wake)).is_err() {
            metrics::counter!("queue_posts_dropped_total", "queue" => queue.name()).increment(1);
        }
    }
}

async fn push_all(pusher: Pusher, mut posts: mpsc::Receiver<(Queue, Wake)>) {
    let mut batch = Vec::with_capacity(BATCH);
    while posts.recv_many(&mut batch, BATCH).await > 0 {
        let mut seen = HashSet::with_capacity(batch.len());
        batch.retain(|(queue, wake)| seen.insert((*queue, wake.id)));
        if let Err(error) = pusher.push(&batch).await {
            metrics::counter!("queue_posts_failed_total").increment(batch.len() as u64);
            warn!(%error, count = batch.len(), "wake-ups were not pushed; the sweep hands their rows out");
        }
        batch.clear();
    }
}

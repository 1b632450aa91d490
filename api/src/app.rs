//! What every handler has at hand.

use std::sync::Arc;

use common::clock::Clock;
use common::crypto::{EncryptionKey, Pepper};
use common::operations::Origin;
use queue::{Publisher, Queue, Replies, Wake};
use sqlx::PgPool;

use crate::envelope::RequestId;
use crate::limits::Limits;

/// Shared by all requests; cheap to clone.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) db: PgPool,
    pub(crate) clock: Clock,
    pub(crate) pepper: Pepper,
    pub(crate) encryption: EncryptionKey,
    pub(crate) limits: Limits,
    pub(crate) public_url: Arc<str>,
    pub(crate) publisher: Publisher,
    pub(crate) replies: Replies,
    /// Where workers tell this process of outcomes.
    pub(crate) reply_channel: Arc<str>,
}

impl App {
    /// Who waits for the operation that this request begins.
    pub(crate) fn origin(&self, RequestId(request_id): RequestId) -> Origin {
        Origin { reply_to: Some(self.reply_channel.to_string()), request_id: Some(request_id.to_string()) }
    }

    /// Wakes a worker, as best it can: if Redis is away, the scheduler's sweep hands the work out within seconds.
    pub(crate) async fn push(&self, queue: Queue, wake: Wake) {
        if let Err(error) = self.publisher.push(queue, std::slice::from_ref(&wake)).await {
            tracing::warn!(%error, id = %wake.id, queue = queue.name(), "not pushed; the sweep will hand it out");
        }
    }
}

//! What every handler has at hand.

use std::sync::Arc;

use common::accounts::{Caller, Keys, Mode};
use common::clock::Clock;
use common::crypto::KeyRing;
use common::db::Db;
use common::egress::Policy;
use common::error::Error;
use common::id::KeyId;
use common::operations::Origin;
use common::time::Timestamp;
use common::webhooks::endpoints;
use queue::{Publisher, Queue, Replies, Wake};

use crate::envelope::RequestId;
use crate::limits::Limits;

/// Shared by all requests; cheap to clone.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) db: Db,
    /// Everyone's time. What happens to an account happens at [`App::now`].
    pub(crate) clock: Clock,
    pub(crate) keys: Arc<Keys>,
    pub(crate) encryption: KeyRing,
    pub(crate) limits: Limits,
    pub(crate) public_url: Arc<str>,
    /// Where browsers reach the card gateway, if any account settles there.
    pub(crate) card_gateway_url: Option<Arc<str>>,
    /// Whether test accounts may have webhook endpoints on loopback.
    pub(crate) webhook_loopback: bool,
    pub(crate) publisher: Publisher,
    pub(crate) replies: Replies,
    /// Where workers tell this process of outcomes.
    pub(crate) reply_channel: Arc<str>,
}

impl App {
    /// What time it is for the caller's account.
    pub(crate) async fn now(&self, caller: &Caller) -> Result<Timestamp, Error> {
        caller.time.now(&*self.db, &self.clock).await
    }

    /// Who waits for the operation that this request begins, and the key that asked for it, if one did.
    pub(crate) fn origin(&self, RequestId(request_id): RequestId, requested_by: Option<KeyId>) -> Origin {
        Origin {
            reply_to: Some(self.reply_channel.to_string()),
            request_id: Some(request_id.to_string()),
            requested_by,
            payer_address: None,
        }
    }

    /// What addresses an account in this mode may be told at.
    pub(crate) fn webhook_policy(&self, mode: Mode) -> Policy {
        endpoints::policy(mode, self.webhook_loopback)
    }

    /// Wakes a worker, as best it can: if Redis is away, the scheduler's sweep hands the work out within seconds.
    pub(crate) fn push(&self, queue: Queue, wake: Wake) {
        self.publisher.post(queue, wake);
    }
}

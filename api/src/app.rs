//! The state that every handler shares.

use std::sync::Arc;

use domain::accounts::{Caller, Keys};
use domain::operations::Origin;
use domain::payments::Payment;
use engine::Intents;
use foundation::clock::Clock;
use foundation::crypto::KeyRing;
use foundation::db::{Db, Reader};
use foundation::error::Error;
use foundation::id::{KeyId, PaymentId};
use foundation::time::Timestamp;
use queue::{Publisher, Replies};

use crate::elements::StripeOrigins;
use crate::large_responses::LargeResponses;
use crate::limits::Limits;
use crate::pages::Documents;
use crate::recorder::Recorder;
use crate::request_id;

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) db: Db,
    pub(crate) intents: Arc<Intents>,
    pub(crate) payments: Arc<Reader<PaymentId, Payment>>,
    /// The system time. An account with a test clock has its own: use [`App::now`].
    pub(crate) clock: Clock,
    pub(crate) keys: Arc<Keys>,
    /// Writes the log that merchants see.
    pub(crate) requests: Arc<Recorder>,
    pub(crate) encryption: KeyRing,
    pub(crate) limits: Limits,
    pub(crate) public_url: Arc<str>,
    /// The URL at which browsers reach the card gateway, if any account uses it.
    pub(crate) card_gateway_url: Option<Arc<str>>,
    /// Where browsers reach Stripe.
    pub(crate) stripe_origins: Arc<StripeOrigins>,
    /// Writes invoices and receipts as PDF.
    pub(crate) documents: Arc<Documents>,
    pub(crate) large_responses: Arc<LargeResponses>,
    /// Whether test accounts may have webhook endpoints on loopback.
    pub(crate) webhook_loopback: bool,
    /// Wakes workers. If Redis is unavailable, the scheduler's sweep queues the work within seconds.
    pub(crate) publisher: Publisher,
    pub(crate) replies: Replies,
    /// The Redis channel on which workers notify this process of outcomes.
    pub(crate) reply_channel: Arc<str>,
}

impl App {
    /// The current time of the caller's account: its test clock, if it has one.
    pub(crate) async fn now(&self, caller: &Caller) -> Result<Timestamp, Error> {
        caller.time.now(&*self.db, &self.clock).await
    }

    /// The origin of an operation that this request starts; `requested_by` is `None` on payment pages.
    pub(crate) fn origin(&self, requested_by: Option<KeyId>) -> Origin {
        Origin {
            reply_to: Some(self.reply_channel.to_string()),
            request_id: request_id::current().map(|id| id.to_string()),
            requested_by,
            payer_address: None,
        }
    }
}

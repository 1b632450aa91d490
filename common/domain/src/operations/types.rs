//! What an operation is, and its states.

use std::time::Duration;

use foundation::id::{KeyId, PaymentId, PaymentMethodId};

/// How long a claim lasts. Longer than [`providers::PROVIDER_TIMEOUT`] plus the time to commit the outcome.
pub const LEASE: Duration = Duration::from_secs(20);
/// After this many failures in a row, more than there are retries, collection has stopped: a charge that was not sent yet is
/// not sent.
pub const STOPPED_AFTER: i32 = 5;
/// How long after the intent is committed the sweep checks whether a worker has claimed the operation.
pub const FIRST_PUSH_AFTER: Duration = Duration::from_secs(3);
/// How long after a request arrives a provider may still act on it.
pub const REQUEST_LIFETIME: Duration = Duration::from_secs(10);

/// The state of an operation. The type in the database also has `claimed`, which no version has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "operation_state", rename_all = "snake_case")]
pub enum State {
    /// Not claimed, or not processed and to be sent again.
    Ready,
    /// A request may have been sent.
    Sending,
    /// The provider executed it.
    Succeeded,
    /// The issuer declined it.
    Declined,
    /// The provider refused it, or it certainly had no effect.
    Failed,
    /// A request may have been sent, and its outcome is not known.
    Unknown,
}

impl State {
    /// Name in metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Sending => "sending",
            Self::Succeeded => "succeeded",
            Self::Declined => "declined",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
        }
    }

    /// Whether the state can no longer change.
    pub const fn is_final(self) -> bool {
        match self {
            Self::Succeeded | Self::Declined | Self::Failed => true,
            Self::Ready | Self::Sending | Self::Unknown => false,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    Payment(PaymentId),
    /// A card to save.
    PaymentMethod(PaymentMethodId),
}

impl Subject {
    /// The id under which a waiting request is notified.
    pub const fn reply_id(self) -> uuid::Uuid {
        match self {
            Self::Payment(id) => id.uuid(),
            Self::PaymentMethod(id) => id.uuid(),
        }
    }

    /// The payment, unless it is a card.
    pub const fn payment(self) -> Option<PaymentId> {
        match self {
            Self::Payment(id) => Some(id),
            Self::PaymentMethod(_) => None,
        }
    }

    /// The card to save.
    pub const fn payment_method(self) -> Option<PaymentMethodId> {
        match self {
            Self::PaymentMethod(id) => Some(id),
            Self::Payment(_) => None,
        }
    }
}

/// The client that waits for an operation, and the request that created it: carried along for logs and notifications.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// The reply channel of the API process that waits.
    pub reply_to: Option<String>,
    /// The `Request-Id` of the request that created it.
    pub request_id: Option<String>,
    /// The API key of that request. `None` for payers on hosted pages, the scheduler and reversals.
    pub requested_by: Option<KeyId>,
    /// The IP address of a payer on a hosted page, for a provider that applies limits by address.
    pub payer_address: Option<String>,
}

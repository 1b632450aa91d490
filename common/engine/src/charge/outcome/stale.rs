//! Late responses: the operation has already ended, or another worker has claimed it. A request without effect counts only
//! while its claim is the latest.

use domain::charges::{Claimed, Locked};
use foundation::error::Error;
use foundation::rule_enabled;
use providers::ProviderResponse;

/// The result of recording an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// The operation ended with this outcome.
    Written {
        /// Fencing token of the operation's latest claim.
        fence: i64,
        /// Whether that claim's lease had not expired.
        held: bool,
    },
    /// The operation had already ended.
    Late,
    /// The request had no effect, and another worker has claimed the operation.
    Superseded,
}

impl Recorded {
    /// The operation ended with this outcome; `operation` is as it was locked.
    pub const fn written(operation: &Locked) -> Self {
        Self::Written { fence: operation.fence, held: operation.is_held }
    }
}

pub fn unexpected_response(claimed: &Claimed, what: &str) -> Error {
    Error::internal(format!("{}: unexpected response: {what}", claimed.id))
}

/// Whether the response means only that this one request had no effect. An approval, or a decline that the provider has
/// recorded, concerns the operation, whichever request reports it.
pub fn had_no_effect(claimed: &Claimed, response: &ProviderResponse) -> bool {
    match response {
        ProviderResponse::Refused { .. } => true,
        ProviderResponse::Declined { .. } => !claimed.provider.records_declines(),
        ProviderResponse::Charged { .. }
        | ProviderResponse::Mismatched { .. }
        | ProviderResponse::Challenged { .. }
        | ProviderResponse::Done { .. }
        | ProviderResponse::Stored { .. } => false,
    }
}

/// Whether another worker has claimed the operation since, and this response does not cover that worker's request.
fn is_superseded(claimed: &Claimed, operation: &Locked, response: &ProviderResponse) -> bool {
    let superseded = had_no_effect(claimed, response) && operation.fence != claimed.fence && rule_enabled!(Fence);
    if superseded {
        tracing::info!(operation = %claimed.id, "a request had no effect, and another worker has claimed the operation since; that worker records the outcome");
    }
    superseded
}

/// Checks whether a response cannot be the outcome of its locked operation: the operation has ended, or belongs to
/// another worker.
pub fn no_outcome(claimed: &Claimed, operation: &Locked, response: &ProviderResponse) -> Option<Recorded> {
    if operation.state.is_final() {
        return Some(Recorded::Late);
    }
    is_superseded(claimed, operation, response).then_some(Recorded::Superseded)
}

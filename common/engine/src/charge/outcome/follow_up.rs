//! What the outcomes of all operations that follow a charge have in common: those of changes and of reversals.

use crate::charge::counters;
use crate::charge::outcome::stale::{Recorded, no_outcome, unexpected_response};
use domain::charges::{self, Claimed, Locked};
use domain::payments::{self, Payment};
use foundation::db::Tx;
use foundation::error::Result;
use foundation::id::PaymentId;
use providers::{FailureCode, ProviderResponse};

/// Locks a payment and an operation that follows its charge, and ends the operation. Returns the payment, unless the response
/// comes too late.
pub async fn end_follow_up(
    tx: &mut Tx,
    claimed: &Claimed,
    id: PaymentId,
    response: &ProviderResponse,
) -> Result<(Recorded, Option<Payment>)> {
    let payment = payments::lock(tx, claimed.account_id, id).await?;
    let operation = charges::lock(tx, claimed.id).await?;
    report_late_effect(claimed, &operation, response);
    if let Some(recorded) = no_outcome(claimed, &operation, response) {
        return Ok((recorded, None));
    }
    charges::finish(tx, claimed.id, response).await?;
    Ok((Recorded::written(&operation), Some(payment)))
}

/// Why the provider refused; `None` if it did what was requested.
pub fn refusal<'a>(claimed: &Claimed, response: &'a ProviderResponse) -> Result<Option<(FailureCode, &'a str)>> {
    match response {
        ProviderResponse::Done { .. } => Ok(None),
        ProviderResponse::Declined { decline, .. } => Ok(Some((FailureCode::ProviderRefused, decline.code.as_str()))),
        ProviderResponse::Refused { code, reason } => Ok(Some((*code, reason.as_str()))),
        ProviderResponse::Charged { .. }
        | ProviderResponse::Challenged { .. }
        | ProviderResponse::Stored { .. }
        | ProviderResponse::Mismatched { .. } => Err(unexpected_response(claimed, "wrong kind of response")),
    }
}

/// If the provider executed a request whose operation has ended otherwise, an operator must correct it: it cannot be undone.
fn report_late_effect(claimed: &Claimed, operation: &Locked, response: &ProviderResponse) {
    if operation.state.is_final()
        && let ProviderResponse::Done { provider_ref } = response
        && operation.provider_ref.as_ref() != Some(provider_ref)
    {
        tracing::error!(
            operation = %claimed.id, kind = claimed.kind.name(), recorded = operation.provider_ref, provider_ref,
            "the provider executed this although the operation has ended otherwise; an operator must correct it"
        );
        counters::count("payments_late_changes_total", claimed);
    }
}

//! Disputes of a charge.

use super::objects::{BalanceTransaction, Dispute, List, money, time};
use super::wire::{self, Session};
use crate::{DisputeReason, DisputeStatus, ProviderError, ReportedDispute};

/// Disputes read at once; a charge has a few at most.
const PAGE: &str = "100";

pub(super) async fn of_charge(stripe: Session<'_>, charge: &str) -> Result<Vec<ReportedDispute>, ProviderError> {
    let path = wire::query("/v1/disputes", &[("payment_intent", charge), ("limit", PAGE)]);
    let list: Option<List<Dispute>> = stripe.get(&path).await?;
    let disputes = list.map(|list| list.data).unwrap_or_default();
    disputes.iter().filter_map(|dispute| reported(dispute).transpose()).collect()
}

/// A dispute; `None` for an inquiry of the issuer or one that was prevented, which withdraw no money.
pub(super) fn reported(dispute: &Dispute) -> Result<Option<ReportedDispute>, ProviderError> {
    let status = match dispute.status.as_str() {
        "needs_response" | "appeal_needs_response" => DisputeStatus::NeedsResponse,
        "under_review" | "appeal_under_review" => DisputeStatus::UnderReview,
        "won" => DisputeStatus::Won,
        "lost" => DisputeStatus::Lost,
        "warning_needs_response" | "warning_under_review" | "warning_closed" | "prevented" => return Ok(None),
        status => {
            tracing::warn!(dispute = dispute.id, status, "an unknown status of a dispute; it counts as under review");
            DisputeStatus::UnderReview
        }
    };
    let respond_by = dispute.evidence_details.as_ref().and_then(|details| details.due_by);
    // 0 if the issuer takes no response.
    let respond_by = respond_by.filter(|due| *due > 0).map(time).transpose()?;
    Ok(Some(ReportedDispute {
        provider_ref: dispute.id.clone(),
        amount: money(&dispute.id, dispute.amount, &dispute.currency)?.minor,
        reason: reason(&dispute.reason),
        status,
        respond_by,
        until: None,
        reinstatement_ref: dispute
            .balance_transactions
            .iter()
            .find(|part| gives_back(part))
            .map(|part| part.id.clone()),
    }))
}

/// Whether it gives disputed money back.
pub(super) const fn gives_back(transaction: &BalanceTransaction) -> bool {
    transaction.amount > 0
}

fn reason(text: &str) -> DisputeReason {
    match text {
        "fraudulent" | "debit_not_authorized" => DisputeReason::Fraudulent,
        "unrecognized" => DisputeReason::Unrecognized,
        "product_not_received" => DisputeReason::ProductNotReceived,
        "product_unacceptable" => DisputeReason::ProductUnacceptable,
        "duplicate" => DisputeReason::Duplicate,
        "credit_not_processed" => DisputeReason::CreditNotProcessed,
        "subscription_canceled" => DisputeReason::SubscriptionCancelled,
        _ => DisputeReason::Other,
    }
}

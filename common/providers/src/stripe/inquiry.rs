//! The status of a charge: its PaymentIntent, and when its money becomes available.

use super::charge;
use super::disputes;
use super::follow_up::refunds_of;
use super::objects::{IntentStatus, PaymentIntent, time};
use super::statement;
use super::wire::Session;
use crate::{ChargeInquiry, ChargeReport, ChargeStatus, ProviderError};

pub(super) async fn report(stripe: Session<'_>, inquiry: &ChargeInquiry) -> Result<ChargeReport, ProviderError> {
    let intent = charge::retrieve(stripe, &inquiry.charge).await?;
    if intent.reference() != inquiry.reference {
        return Err(ProviderError::Unknown(format!("{} has another reference", inquiry.charge)));
    }
    let refunds = refunds_of(stripe, &inquiry.charge).await?;
    let mut lines = statement::of_intent(&intent)?;
    for refund in &refunds {
        lines.extend(statement::of_refund(refund, &intent)?);
    }
    Ok(ChargeReport {
        status: if refunds.iter().any(|refund| refund.is_void() && !refund.has_failed()) {
            ChargeStatus::Voided
        } else {
            status(&intent, inquiry)?
        },
        lines: Some(lines),
        disputes: disputes::of_charge(stripe, &inquiry.charge).await?,
    })
}

fn status(intent: &PaymentIntent, inquiry: &ChargeInquiry) -> Result<ChargeStatus, ProviderError> {
    let unknown = |why: &str| ProviderError::Unknown(format!("{}: {why}", intent.id));
    match intent.status {
        IntentStatus::Canceled if intent.has_expired() => Ok(ChargeStatus::Expired),
        IntentStatus::Canceled => Ok(ChargeStatus::Voided),
        IntentStatus::RequiresCapture => {
            let card = intent.charge().and_then(|charge| charge.payment_method_details.as_ref()?.card.as_ref());
            let until = card.and_then(|card| card.capture_before).map(time).transpose()?;
            Ok(ChargeStatus::Open { until })
        }
        IntentStatus::Succeeded => {
            let charge = intent.charge().ok_or_else(|| unknown("without a charge"))?;
            // Stripe may not have booked it yet.
            let Some(transaction) = charge.transaction() else { return Ok(ChargeStatus::Open { until: None }) };
            let available = time(transaction.available_on)?;
            Ok(if inquiry.now >= available {
                ChargeStatus::Settled
            } else {
                ChargeStatus::Open { until: Some(available) }
            })
        }
        IntentStatus::RequiresPaymentMethod
        | IntentStatus::RequiresConfirmation
        | IntentStatus::RequiresAction
        | IntentStatus::Processing
        | IntentStatus::Unknown => Err(unknown("not approved")),
    }
}

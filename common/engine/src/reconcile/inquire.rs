//! Requests the status of a charge from the provider, and records that it has settled, expired or been disputed.

use std::time::Duration;

use crate::charge::outcome::append_event;
use crate::charge::reversal::{is_unwanted_partial, refund_partial, reverse_partial};
use crate::reconcile::books::compare_charge;
use crate::reconcile::disputes::{append_events, next_inquiry, record_disputes};
use domain::events::EventType;
use domain::operations::PROVIDER_TIMEOUT;
use domain::payments::{self, Inquiry, Payment, Status};
use foundation::clock::Clock;
use foundation::db::{Db, Tx};
use foundation::error::Result;
use foundation::failpoint;
use foundation::id::PaymentId;
use foundation::time::Timestamp;
use providers::{ChargeInquiry, ChargeReport, ChargeStatus, Providers};

/// Delay before the next inquiry about a partial charge that is being refunded.
const PARTIAL_INQUIRY_DELAY: Duration = Duration::from_secs(30);

/// Requests it once. If the status is unchanged, the next inquiry follows at the time that the scheduler has set.
///
/// # Errors
/// Database errors only.
pub async fn inquire(db: &Db, providers: &Providers, clock: &Clock, id: PaymentId) -> Result<()> {
    let Some(due) = payments::inquiry(db, id, clock.now()).await? else { return Ok(()) };
    let Some(provider) = providers.get(due.provider) else { return Ok(()) };
    let inquiry = provider.inquire(ChargeInquiry {
        account: due.provider_account_id,
        charge: due.provider_ref.clone(),
        reference: due.reference.clone(),
        created_at: due.created_at,
        captured_at: due.captured_at,
        now: due.now,
    });
    let response = match tokio::time::timeout(PROVIDER_TIMEOUT, inquiry).await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => {
            tracing::warn!(payment = %id, %error, "the provider did not report the charge's status; it will be queried again later");
            return Ok(());
        }
        Err(_) => {
            tracing::warn!(payment = %id, "the provider did not report the charge's status in time; it will be queried again later");
            return Ok(());
        }
    };
    failpoint!("inquire.responded");
    if let Some(lines) = &response.lines {
        compare_charge(db, provider, &due, lines).await?;
    }
    record_report(db, clock, &due, &response).await
}

/// Records the status and the disputes that the provider reported of the charge as it was when `due` was read.
pub async fn record_report(db: &Db, clock: &Clock, due: &Inquiry, report: &ChargeReport) -> Result<()> {
    let mut tx = db.begin().await?;
    let mut payment = payments::lock(&mut tx, due.account_id, due.id).await?;
    // A capture or void in progress decides first: the status may predate it.
    if payment.pending_operation.is_some() {
        return Ok(());
    }
    // So does a capture that has ended since: the status may describe the earlier authorization.
    if payment.captured_at != due.captured_at {
        return Ok(());
    }
    let now = due.time.now(&mut *tx, clock).await?;
    if is_unwanted_partial(&payment) {
        return return_partial(tx, payment, report.status, now).await;
    }
    let inquiry_at = payment.inquiry_at;
    let event = match report.status {
        ChargeStatus::Settled if payment.settle() => Some(EventType::PaymentSettled),
        ChargeStatus::Expired if payment.expire() => Some(EventType::PaymentExpired),
        ChargeStatus::Voided if payment.status.may_become(Status::Cancelled) => {
            tracing::warn!(payment = %due.id, "the charge was voided at the provider, not by us; the payment is cancelled");
            payment.voided(now)?;
            Some(EventType::PaymentCancelled)
        }
        ChargeStatus::Open { .. } | ChargeStatus::Settled | ChargeStatus::Expired | ChargeStatus::Voided => None,
    };
    let disputes = record_disputes(&mut tx, &mut payment, &report.disputes, now).await?;
    // Requested since the report was read: it may lack what the next one has.
    let requested_again = (inquiry_at, payment.inquiry_requests) != (due.inquiry_at, due.inquiry_requests);
    payment.inquiry_at = if requested_again {
        inquiry_at
    } else if payment.settled || payment.status.ended_unsettled() {
        next_inquiry(payment.created_at, &report.disputes, now)
    } else {
        payment
            .inquiry_at
            .map(|next| status_may_change_at(&payment, due, report.status).map_or(next, |at| next.max(at)))
    };
    if event.is_none() && disputes.is_empty() {
        if payment.inquiry_at != inquiry_at {
            payments::save(&mut tx, &mut payment).await?;
            tx.commit().await?;
        }
        return Ok(());
    }
    payments::save(&mut tx, &mut payment).await?;
    if let Some(event) = event {
        append_event(&mut tx, &payment, event, None, now).await?;
    }
    append_events(&mut tx, &payment, &disputes, now).await?;
    failpoint!("inquire.written");
    tx.commit().await?;
    Ok(())
}

/// The time before which an open charge does not change by itself: it is not queried every half minute until then.
fn status_may_change_at(payment: &Payment, due: &Inquiry, status: ChargeStatus) -> Option<Timestamp> {
    match status {
        ChargeStatus::Open { until: None } if payment.captured_at.is_none() => {
            Some(payment.created_at.plus(due.provider.authorization_lifetime()))
        }
        ChargeStatus::Open { until } => until,
        ChargeStatus::Settled | ChargeStatus::Expired | ChargeStatus::Voided => None,
    }
}

/// Retries the return of a partial charge until it succeeds: until then its invoice or link can neither be paid nor
/// collected. The intervals of inquiries separate the attempts.
async fn return_partial(mut tx: Tx, mut payment: Payment, status: ChargeStatus, now: Timestamp) -> Result<()> {
    if payment.amount_refund_pending > 0 {
        return Ok(());
    }
    let event = match status {
        ChargeStatus::Open { .. } => {
            reverse_partial(&mut tx, &mut payment, now).await?;
            None
        }
        ChargeStatus::Settled => {
            let changed = payment.settle();
            // Ask again until the money is returned.
            payment.inquiry_at = Some(now.plus(PARTIAL_INQUIRY_DELAY));
            refund_partial(&mut tx, &mut payment, now).await?;
            payments::save(&mut tx, &mut payment).await?;
            changed.then_some(EventType::PaymentSettled)
        }
        ChargeStatus::Voided | ChargeStatus::Expired => {
            payment.voided(now)?;
            payments::save(&mut tx, &mut payment).await?;
            Some(EventType::PaymentCancelled)
        }
    };
    if let Some(event) = event {
        append_event(&mut tx, &payment, event, None, now).await?;
    }
    failpoint!("inquire.partial_returned");
    tx.commit().await?;
    Ok(())
}

//! Records the disputes that a provider reports with the status of a charge.

use std::ops::RangeInclusive;
use std::time::Duration;

use domain::accounts::Mode;
use domain::disputes::{self, Dispute, DisputeView};
use domain::events::{self, EventType};
use domain::payments::Payment;
use foundation::db::Tx;
use foundation::error::Result;
use foundation::time::Timestamp;
use providers::{DisputeStatus, ReportedDispute};

/// Delays before the next inquiry about an open dispute of which the provider does not say when it may change: a
/// twenty-fourth of the payment's age within these limits, so that months of a dispute are no thousands of requests.
const INQUIRY_DELAY: RangeInclusive<Duration> = Duration::from_hours(1)..=Duration::from_hours(24);

/// A dispute that was opened or decided, and its event.
pub type Change = (EventType, Dispute);

/// Writes what has changed since the last report, and the disputed amount of the payment, which is locked and which the
/// caller saves. Recording a report again changes nothing.
pub async fn record_disputes(
    tx: &mut Tx,
    payment: &mut Payment,
    reported: &[ReportedDispute],
    now: Timestamp,
) -> Result<Vec<Change>> {
    let mut changes = Vec::new();
    if reported.is_empty() {
        return Ok(changes);
    }
    let mut known = disputes::of_payment(&mut **tx, payment.account_id, payment.id).await?;
    for report in reported {
        let earlier = known.iter_mut().find(|dispute| dispute.provider_ref == report.provider_ref);
        let (dispute, changed) = if let Some(dispute) = earlier {
            let changed = disputes::update(tx, payment.account_id, dispute, report, now).await?;
            (dispute.clone(), changed)
        } else {
            let dispute = disputes::open(tx, payment, report, now).await?;
            changes.push((EventType::DisputeCreated, dispute.clone()));
            known.push(dispute.clone());
            (dispute, true)
        };
        if changed && dispute.status.is_closed() {
            changes.push((EventType::DisputeClosed, dispute));
        }
    }
    let withdrawn = known.iter().filter(|dispute| dispute.status != DisputeStatus::Won);
    payment.amount_disputed = withdrawn.map(|dispute| dispute.amount).sum::<i64>().min(payment.amount_captured);
    Ok(changes)
}

/// Writes the events of the changes.
pub async fn append_events(tx: &mut Tx, payment: &Payment, changes: &[Change], now: Timestamp) -> Result<()> {
    let livemode = payment.mode == Mode::Live;
    for (kind, dispute) in changes {
        events::append(tx, payment.account_id, livemode, *kind, &DisputeView::new(dispute, livemode), now).await?;
    }
    Ok(())
}

/// When the next inquiry about a settled charge of this age is due: while a dispute of it is open.
pub fn next_inquiry(created_at: Timestamp, reported: &[ReportedDispute], now: Timestamp) -> Option<Timestamp> {
    let age = now.jiff().duration_since(created_at.jiff()).unsigned_abs();
    let delay = (age / 24).clamp(*INQUIRY_DELAY.start(), *INQUIRY_DELAY.end());
    let open = reported.iter().filter(|dispute| !dispute.status.is_closed());
    open.map(|dispute| dispute.until.unwrap_or_else(|| now.plus(delay))).min()
}

#[cfg(test)]
mod tests {
    use providers::DisputeReason;

    use super::*;

    #[test]
    fn an_open_dispute_is_queried_hourly_at_first_and_then_daily() {
        let now = Timestamp::parse("2026-06-01T00:00:00Z").expect("a time");
        let mut dispute = ReportedDispute {
            provider_ref: "du_1".to_owned(),
            amount: 100,
            reason: DisputeReason::Fraudulent,
            status: DisputeStatus::UnderReview,
            respond_by: None,
            until: None,
            reinstatement_ref: None,
        };
        let hours = Duration::from_hours;
        for (age, delay) in [(hours(0), hours(1)), (hours(48), hours(2)), (hours(2_000), hours(24))] {
            let next = next_inquiry(now.minus(age), std::slice::from_ref(&dispute), now);
            assert_eq!(next, Some(now.plus(delay)), "{age:?}");
        }
        dispute.status = DisputeStatus::Lost;
        assert_eq!(next_inquiry(now, &[dispute], now), None);
    }
}

//! Records the disputes that a provider reports with the status of a charge.

use std::time::Duration;

use domain::accounts::Mode;
use domain::disputes::{self, Dispute, DisputeView};
use domain::events::{self, EventType};
use domain::payments::Payment;
use foundation::db::Tx;
use foundation::error::Result;
use foundation::time::Timestamp;
use providers::{DisputeStatus, ReportedDispute};

/// Delay before the next inquiry about an open dispute of which the provider does not say when it may change.
const INQUIRY_DELAY: Duration = Duration::from_secs(3600);

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

/// When the provider is asked next about a settled charge: while a dispute of it is open.
pub fn next_inquiry(reported: &[ReportedDispute], now: Timestamp) -> Option<Timestamp> {
    let open = reported.iter().filter(|dispute| !dispute.status.is_closed());
    open.map(|dispute| dispute.until.unwrap_or_else(|| now.plus(INQUIRY_DELAY))).min()
}

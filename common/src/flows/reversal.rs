//! Giving a partial authorization back: it never pays an invoice or a link in full. It is voided, or refunded if it has settled
//! before that.

use std::time::Duration;

use crate::db::Tx;
use crate::error::Result;
use crate::id::{OperationId, RefundId};
use crate::money::Money;
use crate::operations::{self, Kind, NewOperation, Origin, Subject};
use crate::payments::{self, Payment, Refund, RefundStatus, Status, refunds};
use crate::proof::failpoint;
use crate::queues;
use crate::time::Timestamp;

/// How long after a refusal the provider is asked how the charge stands.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(10);

/// Begins to void a partial charge, in the transaction that has written it. The payment is locked.
///
/// # Errors
/// Only the database's.
pub(super) async fn reverse_partial(tx: &mut Tx, payment: &mut Payment, now: Timestamp) -> Result<()> {
    payment.pending_operation = Some(Kind::Void);
    payments::save(tx, payment).await?;
    give_back(tx, payment, Kind::Void, None, now).await
}

/// Whether a charge is a part that is to go back, and has not gone yet.
pub(super) fn is_unwanted_part(payment: &Payment) -> bool {
    let has_parent = payment.invoice_id.is_some() || payment.payment_link_id.is_some();
    let is_part = payment.amount < payment.amount_requested;
    has_parent && is_part && payment.amount_captured > payment.amount_refunded && payment.status != Status::Cancelled
}

/// The provider would not void a charge, or not refund it: it may have settled, or may be away. A part that nobody wants must
/// go back all the same, so the provider is asked how it stands, and it is tried again by that (`flows/inquire.rs`).
pub(super) fn was_refused(payment: &mut Payment, now: Timestamp) {
    if is_unwanted_part(payment) {
        payment.inquiry_at = Some(now.plus(TRY_AGAIN_AFTER));
    }
}

/// Begins to refund what is left of a part that has settled. It is saved by the caller.
///
/// # Errors
/// Only the database's.
pub(super) async fn refund_part(tx: &mut Tx, payment: &mut Payment, now: Timestamp) -> Result<()> {
    let left = payment.amount_captured - payment.amount_refunded - payment.amount_refund_pending;
    if left == 0 {
        return Ok(());
    }
    let refund = Refund {
        id: RefundId::new(now),
        payment_id: payment.id,
        amount: left,
        amount_asked: None,
        external_id: None,
        status: RefundStatus::Pending,
        created_at: now,
        failure_code: None,
        requested_by: None,
    };
    payment.amount_refund_pending += left;
    payment.has_refunds = true;
    refunds::insert(tx, payment.account_id, &refund).await?;
    give_back(tx, payment, Kind::Refund, Some(&refund), now).await
}

async fn give_back(tx: &mut Tx, payment: &Payment, kind: Kind, refund: Option<&Refund>, now: Timestamp) -> Result<()> {
    let operation = OperationId::new(now);
    let amount = refund.map_or(payment.amount, |refund| refund.amount);
    operations::insert(
        tx,
        &NewOperation {
            id: operation,
            account_id: payment.account_id,
            provider_account_id: payment.provider_account_id,
            subject: Subject::Payment(payment.id),
            refund_id: refund.map(|refund| refund.id),
            kind,
            money: Some(Money { minor: amount, currency: payment.currency }),
            source: None,
            target_ref: payment.provider_ref.as_deref(),
            action_token: None,
            by_system: true,
            origin: &Origin::default(),
        },
    )
    .await?;
    failpoint("reversal.begun").await?;
    tx.wake(queues::MONEY, operation.uuid());
    Ok(())
}

//! Returns partial approvals of invoice and link payments: a partial amount never pays an invoice or a link. It is
//! voided, or refunded if it has already settled.

use std::time::Duration;

use domain::charges::{self, NewOperation};
use domain::operations::{OperationKind, Origin, Subject};
use domain::payments::{self, Payment, Refund, RefundStatus, Status, refunds};
use foundation::db::Tx;
use foundation::error::Result;
use foundation::failpoint;
use foundation::id::{OperationId, RefundId};
use foundation::money::Money;
use foundation::queues;
use foundation::time::Timestamp;

/// Delay after a refusal before the provider is queried for the charge's status.
const INQUIRY_DELAY: Duration = Duration::from_secs(10);

/// Begins to void a partial charge, in the transaction that recorded it. The payment is locked.
///
/// # Errors
/// Database errors only.
pub async fn reverse_partial(tx: &mut Tx, payment: &mut Payment, now: Timestamp) -> Result<()> {
    payment.pending_operation = Some(OperationKind::Void);
    payments::save(tx, payment).await?;
    begin_operation(tx, payment, OperationKind::Void, None, now).await
}

/// Whether a charge is a partial one that must be returned and has not been yet.
pub fn is_unwanted_partial(payment: &Payment) -> bool {
    let has_parent = payment.invoice_id.is_some() || payment.payment_link_id.is_some();
    let is_part = payment.amount < payment.amount_requested;
    has_parent && is_part && payment.amount_captured > payment.amount_refunded && payment.status != Status::Cancelled
}

/// Handles a refused void or refund: the charge may have settled, or the provider may be unavailable. A partial charge
/// must be returned anyway, so an inquiry is scheduled, and its result decides how to retry (`reconcile/inquire.rs`).
pub fn schedule_inquiry_after_refusal(payment: &mut Payment, now: Timestamp) {
    if is_unwanted_partial(payment) {
        payment.inquiry_at = Some(now.plus(INQUIRY_DELAY));
    }
}

/// Begins to refund the rest of a settled partial charge. The caller saves the payment.
///
/// # Errors
/// Database errors only.
pub async fn refund_partial(tx: &mut Tx, payment: &mut Payment, now: Timestamp) -> Result<()> {
    let withdrawn = payment.amount_refunded + payment.amount_disputed;
    let left = payment.amount_captured - withdrawn - payment.amount_refund_pending;
    if left <= 0 {
        return Ok(());
    }
    let refund = Refund {
        id: RefundId::new(now),
        payment_id: payment.id,
        amount: left,
        amount_asked: None,
        external_id: None,
        metadata: None,
        version: 1,
        status: RefundStatus::Pending,
        created_at: now,
        failure_code: None,
        requested_by: None,
    };
    payment.amount_refund_pending += left;
    payment.has_refunds = true;
    refunds::insert(tx, payment.account_id, &refund).await?;
    begin_operation(tx, payment, OperationKind::Refund, Some(&refund), now).await
}

async fn begin_operation(
    tx: &mut Tx,
    payment: &Payment,
    kind: OperationKind,
    refund: Option<&Refund>,
    now: Timestamp,
) -> Result<()> {
    let operation = OperationId::new(now);
    let amount = refund.map_or(payment.amount, |refund| refund.amount);
    charges::insert(
        tx,
        &[NewOperation {
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
            background: false,
            origin: &Origin::default(),
        }],
    )
    .await?;
    failpoint!("reversal.begun");
    tx.wake(queues::MONEY, operation.uuid());
    Ok(())
}

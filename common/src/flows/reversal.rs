//! Giving a partial authorization back: it never pays an invoice or a link in full. It is voided, or refunded if it has settled
//! before that.

use crate::db::Tx;
use crate::error::Result;
use crate::id::{OperationId, RefundId};
use crate::money::Money;
use crate::operations::{self, Kind, NewOperation, Origin, Subject};
use crate::payments::{self, Payment, Refund, RefundStatus, refunds};
use crate::queues;
use crate::time::Timestamp;

/// Begins to void a partial charge, in the transaction that has written it. The payment is locked.
///
/// # Errors
/// Only the database's.
pub(super) async fn reverse_partial(tx: &mut Tx, payment: &mut Payment, now: Timestamp) -> Result<()> {
    payment.pending_operation = Some(Kind::Void);
    payments::save(tx, payment).await?;
    give_back(tx, payment, Kind::Void, None, now).await
}

/// The provider would not void a charge. If that was a partial one that nobody wants, all of it is refunded instead.
///
/// # Errors
/// Only the database's.
pub(super) async fn void_was_refused(tx: &mut Tx, payment: &mut Payment, now: Timestamp) -> Result<()> {
    let partial = payment.amount < payment.amount_requested;
    let has_parent = payment.invoice_id.is_some() || payment.payment_link_id.is_some();
    let left = payment.amount_captured - payment.amount_refunded - payment.amount_refund_pending;
    if !has_parent || !partial || left == 0 {
        return Ok(());
    }
    let refund = Refund {
        id: RefundId::new(now),
        payment_id: payment.id,
        amount: left,
        status: RefundStatus::Pending,
        created_at: now,
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
            origin: &Origin::default(),
        },
        now,
    )
    .await?;
    tx.wake(queues::MONEY, operation.uuid());
    Ok(())
}

//! Capturing, voiding and refunding: the intent, decided and reserved under the payment's lock.

use sqlx::PgPool;

use super::doubt::Doubt;
use crate::accounts::Caller;
use crate::error::{Error, Result};
use crate::id::{OperationId, PaymentId, RefundId};
use crate::money::Money;
use crate::operations::{self, Kind, NewOperation, Origin, State, Subject};
use crate::payments::{self, Payment, Refund, RefundStatus, refunds};
use crate::proof::failpoint;
use crate::providers::FailureCode;
use crate::time::Timestamp;

/// What is asked of a payment. Amounts are in minor units; none is all.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    /// Take authorized money.
    Capture(Option<i64>),
    /// Cancel what has not settled.
    Void,
    /// Give money back.
    Refund(Option<i64>),
}

/// A change that is on its way.
#[derive(Debug)]
pub struct Changing {
    /// The payment as it stands now.
    pub payment: Payment,
    /// The operation to push.
    pub operation: OperationId,
    /// The refund, if it is one.
    pub refund: Option<Refund>,
}

/// Writes the intent of a change.
///
/// # Errors
/// [`Error::NotFound`] for an unknown payment, and what [`Payment::may_capture`], [`Payment::may_void`] and
/// [`Payment::may_refund`] refuse.
pub async fn change_payment(
    db: &PgPool,
    caller: &Caller,
    id: PaymentId,
    change: Change,
    origin: &Origin,
    now: Timestamp,
) -> Result<Changing> {
    let ids = (OperationId::new(now), RefundId::new(now));
    let mut doubt = Doubt::default();
    loop {
        let tried = write(db, caller, id, change, origin, ids, now, &mut doubt).await;
        if let Some(written) = doubt.end(tried, reread(db, caller, id, ids)).await? {
            return Ok(written);
        }
    }
}

async fn reread(
    db: &PgPool,
    caller: &Caller,
    id: PaymentId,
    (operation, refund): (OperationId, RefundId),
) -> Result<Changing> {
    operations::state(db, caller.account_id, operation).await?;
    let (payment, refunds) = payments::retrieve_with_refunds(db, caller.account_id, id).await?;
    let refund = refunds.into_iter().find(|one| one.id == refund);
    Ok(Changing { payment, operation, refund })
}

#[expect(clippy::too_many_arguments, reason = "each is said once, by the one caller")]
async fn write(
    db: &PgPool,
    caller: &Caller,
    id: PaymentId,
    change: Change,
    origin: &Origin,
    (operation, refund): (OperationId, RefundId),
    now: Timestamp,
    doubt: &mut Doubt,
) -> Result<Changing> {
    let mut tx = db.begin().await?;
    let mut payment = payments::lock(&mut tx, caller.account_id, id).await?;
    let (kind, amount) = match change {
        Change::Capture(asked) => (Kind::Capture, payment.may_capture(asked, &caller.grants)?),
        Change::Void => (Kind::Void, payment.may_void().map(|()| payment.amount)?),
        Change::Refund(asked) => (Kind::Refund, payment.may_refund(asked, &caller.grants)?),
    };
    let refund = (kind == Kind::Refund).then_some(Refund {
        id: refund,
        payment_id: id,
        amount,
        status: RefundStatus::Pending,
        created_at: now,
        failure_code: None,
        requested_by: origin.requested_by,
    });
    match &refund {
        Some(refund) => {
            payment.amount_refund_pending += amount;
            payment.has_refunds = true;
            refunds::insert(&mut tx, caller.account_id, refund).await?;
        }
        None => payment.pending_operation = Some(kind),
    }
    payments::save(&mut tx, &payment).await?;
    let target_ref = payment.provider_ref.as_deref();
    operations::insert(
        &mut tx,
        &NewOperation {
            id: operation,
            account_id: caller.account_id,
            // Where the charge was made, even if the account's new money goes elsewhere by now.
            provider_account_id: payment.provider_account_id,
            subject: Subject::Payment(id),
            refund_id: refund.as_ref().map(|refund| refund.id),
            kind,
            money: Some(Money { minor: amount, currency: payment.currency }),
            source: None,
            target_ref,
            action_token: None,
            by_system: false,
            origin,
        },
    )
    .await?;
    failpoint("change_payment.written").await?;
    doubt.send(tx.commit()).await?;
    failpoint("change_payment.committed").await?;
    Ok(Changing { payment, operation, refund })
}

/// Whether a capture or void has come to its end, and how: with the payment and its refunds as they stand by then.
///
/// # Errors
/// [`Error::Conflict`] if the provider would not do it: the payment is as it was.
pub async fn changed(db: &PgPool, payment: &Payment, operation: OperationId) -> Result<Option<(Payment, Vec<Refund>)>> {
    match operations::state(db, payment.account_id, operation).await? {
        State::Succeeded => payments::retrieve_with_refunds(db, payment.account_id, payment.id).await.map(Some),
        State::Declined | State::Failed => {
            let code = operations::failure_code(db, payment.account_id, operation).await?;
            Err(Error::conflict(match code {
                Some(FailureCode::ProviderUnavailable) => {
                    "the provider could not be reached; nothing was done, the payment is as it was: try again later"
                }
                Some(FailureCode::Configuration) => {
                    "the account is not set up for this at the provider; nothing was done, the payment is as it was"
                }
                Some(FailureCode::ProviderRefused | FailureCode::AmountMismatch) | None => {
                    "the provider refused; the payment is as it was"
                }
            }))
        }
        State::Ready | State::Claimed | State::Sending | State::Unknown => Ok(None),
    }
}

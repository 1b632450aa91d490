//! Capturing, voiding and refunding: the intent, decided and reserved under the payment's lock.

use sqlx::{PgConnection, PgPool};

use super::doubt::Doubt;
use crate::accounts::Caller;
use crate::db;
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
pub enum Change<'a> {
    /// Take authorized money.
    Capture(Option<i64>),
    /// Cancel what has not settled.
    Void,
    /// Give money back, under an id of the merchant's own perhaps.
    Refund(Option<i64>, Option<&'a str>),
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
    /// The refund was accepted before, for another request with its id: there is nothing to push.
    pub is_earlier: bool,
}

/// Writes the intent of a change.
///
/// # Errors
/// [`Error::NotFound`] for an unknown payment, and what [`Payment::may_capture`], [`Payment::may_void`] and
/// [`Payment::may_refund`] refuse; [`Error::Conflict`] for the id of a refund of another amount.
pub async fn change_payment(
    db: &PgPool,
    caller: &Caller,
    id: PaymentId,
    change: Change<'_>,
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
    Ok(Changing { payment, operation, refund, is_earlier: false })
}

/// The refund that an earlier request has made under the same id. It is looked for before the rules, which it may have changed the
/// answer of: nothing may be left by now.
async fn earlier(tx: &mut PgConnection, payment: &Payment, change: Change<'_>) -> Result<Option<Refund>> {
    let Change::Refund(asked, Some(external_id)) = change else { return Ok(None) };
    let found = refunds::find_by_external_id(tx, payment.account_id, payment.id, external_id).await?;
    let is_other = |refund: &Refund| asked != refund.amount_asked && asked != Some(refund.amount);
    match found {
        Some(refund) if is_other(&refund) => Err(Error::conflict(format!(
            "externalId names another refund of this payment: {} of {}",
            refund.id, refund.amount
        ))),
        found => Ok(found),
    }
}

#[expect(clippy::too_many_arguments, reason = "each is said once, by the one caller")]
async fn write(
    db: &PgPool,
    caller: &Caller,
    id: PaymentId,
    change: Change<'_>,
    origin: &Origin,
    (operation, refund): (OperationId, RefundId),
    now: Timestamp,
    doubt: &mut Doubt,
) -> Result<Changing> {
    let mut tx = db::begin(db).await?;
    let mut payment = payments::lock(&mut tx, caller.account_id, id).await?;
    if let Some(found) = earlier(&mut tx, &payment, change).await? {
        // Or of an earlier try of ours, whose COMMIT was not answered.
        let is_earlier = found.id != refund;
        return Ok(Changing { payment, operation, refund: Some(found), is_earlier });
    }
    let (kind, amount) = match change {
        Change::Capture(asked) => (Kind::Capture, payment.may_capture(asked, &caller.grants)?),
        Change::Void => (Kind::Void, payment.may_void().map(|()| payment.amount)?),
        Change::Refund(asked, _) => (Kind::Refund, payment.may_refund(asked, &caller.grants)?),
    };
    let refund = if let Change::Refund(amount_asked, external_id) = change {
        Some(Refund {
            id: refund,
            payment_id: id,
            amount,
            amount_asked,
            external_id: external_id.map(str::to_owned),
            status: RefundStatus::Pending,
            created_at: now,
            failure_code: None,
            requested_by: origin.requested_by,
        })
    } else {
        None
    };
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
    Ok(Changing { payment, operation, refund, is_earlier: false })
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

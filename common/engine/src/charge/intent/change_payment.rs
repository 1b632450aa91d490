//! Captures, voids and refunds: the intent, checked and reserved under the payment's lock.

use sqlx::{PgConnection, PgPool};

use crate::ambiguous_commit::AmbiguousCommit;
use domain::accounts::{self, Caller};
use domain::charges::{self, NewOperation};
use domain::operations::{self, OperationKind, Origin, State};
use domain::payments::{self, Payment, Refund, RefundStatus, refunds};
use foundation::db;
use foundation::error::{Error, Result};
use foundation::failpoint;
use foundation::id::{OperationId, PaymentId, RefundId};
use foundation::merchant_data::MerchantData;
use foundation::money::Money;
use foundation::time::Timestamp;
use providers::{FailureCode, ProviderKind};

/// A requested change of a payment. Amounts are in minor units; `None` means the full remaining amount.
#[derive(Clone, Copy, Debug)]
pub enum Change<'a> {
    /// Capture authorized money.
    Capture(Option<i64>),
    /// Cancel a charge that has not settled.
    Void,
    /// Refund, with the merchant's own data.
    Refund(Option<i64>, &'a MerchantData),
}

/// A change that has been accepted.
#[derive(Debug)]
pub struct PendingChange {
    /// The payment, with the change pending.
    pub payment: Payment,
    pub operation: OperationId,
    /// The refund, if the change is one.
    pub refund: Option<Refund>,
    /// The refund was accepted by an earlier request with the same external id, so its operation must not be pushed.
    pub is_earlier: bool,
}

/// Writes the intent of a change.
///
/// # Errors
/// [`Error::NotFound`] for an unknown payment; the errors of [`Payment::may_capture`], [`Payment::may_void`] and
/// [`Payment::may_refund`]; 422 `amount` if the provider does not capture or refund exactly it; [`Error::Conflict`] if the external id belongs to a refund of another amount.
pub async fn change_payment(
    db: &PgPool,
    caller: &Caller,
    id: PaymentId,
    change: Change<'_>,
    origin: &Origin,
    now: Timestamp,
) -> Result<PendingChange> {
    let intent =
        Intent { caller, id, change, origin, operation: OperationId::new(now), refund: RefundId::new(now), now };
    let mut commit = AmbiguousCommit::default();
    loop {
        let result = intent.write(db, &mut commit).await;
        if let Some(written) = commit.resolve(result, |_| true, intent.reread(db)).await? {
            return Ok(written);
        }
    }
}

/// Returns the refund that an earlier request created with the same external id. Checked before the rules, which that
/// refund may have changed the result of: nothing may be left to refund.
async fn earlier_refund(tx: &mut PgConnection, payment: &Payment, change: Change<'_>) -> Result<Option<Refund>> {
    let Change::Refund(requested, MerchantData { external_id: Some(external_id), .. }) = change else {
        return Ok(None);
    };
    let found = refunds::find_by_external_id(tx, payment.account_id, payment.id, external_id).await?;
    let is_other = |refund: &Refund| requested != refund.amount_asked && requested != Some(refund.amount);
    match found {
        Some(refund) if is_other(&refund) => Err(Error::conflict(format!(
            "externalId belongs to another refund of this payment: {} of {}",
            refund.id, refund.amount
        ))),
        found => Ok(found),
    }
}

/// A requested change, with the ids that every attempt to write it uses.
struct Intent<'a> {
    caller: &'a Caller,
    id: PaymentId,
    change: Change<'a>,
    origin: &'a Origin,
    operation: OperationId,
    refund: RefundId,
    now: Timestamp,
}

impl Intent<'_> {
    async fn write(&self, db: &PgPool, commit: &mut AmbiguousCommit) -> Result<PendingChange> {
        let mut tx = db::begin(db).await?;
        let mut payment = payments::lock(&mut tx, self.caller.account_id, self.id).await?;
        if let Some(found) = earlier_refund(&mut tx, &payment, self.change).await? {
            // It may also come from an earlier attempt of this request whose COMMIT got no response.
            let is_earlier = found.id != self.refund;
            return Ok(PendingChange { payment, operation: self.operation, refund: Some(found), is_earlier });
        }
        let (kind, amount) = self.check(&mut tx, &payment).await?;
        let refund = self.refund_of(amount);
        match &refund {
            Some(refund) => {
                payment.amount_refund_pending += amount;
                payment.has_refunds = true;
                refunds::insert(&mut tx, self.caller.account_id, refund).await?;
            }
            None => payment.pending_operation = Some(kind),
        }
        payments::save(&mut tx, &mut payment).await?;
        let operation = NewOperation {
            refund_id: refund.as_ref().map(|refund| refund.id),
            ..NewOperation::of_payment(self.operation, &payment, kind, amount, self.origin)
        };
        charges::insert(&mut tx, &[operation]).await?;
        failpoint!("change_payment.written");
        commit.send(tx.commit()).await?;
        failpoint!("change_payment.committed");
        Ok(PendingChange { payment, operation: self.operation, refund, is_earlier: false })
    }

    /// Returns the kind and amount of the operation, if the payment, the caller's grants and the provider allow it.
    async fn check(&self, tx: &mut PgConnection, payment: &Payment) -> Result<(OperationKind, i64)> {
        let grants = &self.caller.grants;
        let (kind, amount) = match self.change {
            Change::Capture(requested) => (OperationKind::Capture, payment.may_capture(requested, grants)?),
            Change::Void => return payment.may_void().map(|()| (OperationKind::Void, payment.amount)),
            Change::Refund(requested, _) => (OperationKind::Refund, payment.may_refund(requested, grants)?),
        };
        let money = Money { minor: amount, currency: payment.currency };
        self.provider(tx, payment).await?.require_step("amount", money)?;
        Ok((kind, amount))
    }

    /// Where the charge was made, even if the account's new payments now go elsewhere.
    async fn provider(&self, tx: &mut PgConnection, payment: &Payment) -> Result<ProviderKind> {
        if payment.provider_account_id == self.caller.provider_account_id {
            return Ok(self.caller.provider);
        }
        Ok(accounts::settlement(tx, payment.provider_account_id).await?.provider)
    }

    fn refund_of(&self, amount: i64) -> Option<Refund> {
        let Change::Refund(amount_asked, merchant_data) = self.change else { return None };
        Some(Refund {
            id: self.refund,
            payment_id: self.id,
            amount,
            amount_asked,
            external_id: merchant_data.external_id.clone(),
            metadata: merchant_data.metadata.clone(),
            version: 1,
            status: RefundStatus::Pending,
            created_at: self.now,
            failure_code: None,
            requested_by: self.origin.requested_by,
        })
    }

    /// Reads what an attempt has written whose COMMIT got no response.
    async fn reread(&self, db: &PgPool) -> Result<PendingChange> {
        let account = self.caller.account_id;
        operations::state(db, account, self.operation).await?;
        let (payment, refunds) = payments::retrieve_with_refunds(db, account, self.id).await?;
        let refund = refunds.into_iter().find(|found| found.id == self.refund);
        Ok(PendingChange { payment, operation: self.operation, refund, is_earlier: false })
    }
}

/// Returns the payment and its refunds once a capture or void has succeeded; `None` while it has not ended.
///
/// # Errors
/// [`Error::Conflict`] if it failed: the payment is unchanged.
pub async fn change_outcome(
    db: &PgPool,
    payment: &Payment,
    operation: OperationId,
) -> Result<Option<(Payment, Vec<Refund>)>> {
    match operations::state(db, payment.account_id, operation).await? {
        State::Succeeded => payments::retrieve_with_refunds(db, payment.account_id, payment.id).await.map(Some),
        State::Declined | State::Failed => {
            let code = operations::failure_code(db, payment.account_id, operation).await?;
            Err(Error::conflict(match code {
                Some(FailureCode::ProviderUnavailable) => {
                    "the provider could not be reached; the payment is unchanged: try again later"
                }
                Some(FailureCode::Configuration) => {
                    "the account is not set up for this at the provider; the payment is unchanged"
                }
                Some(FailureCode::ProviderRefused | FailureCode::AmountMismatch | FailureCode::Withdrawn) | None => {
                    "the provider refused; the payment is unchanged"
                }
            }))
        }
        State::Ready | State::Sending | State::Unknown => Ok(None),
    }
}

//! Ends the charge of an invoice of which no request can have taken effect, because the invoice is no longer to be
//! charged.

use crate::charge::counters::{CollectionOutcome, count_collections};
use crate::charge::outcome::charge::write_outcome;
use domain::charges::{self, Locked};
use domain::invoices::{Failure, Invoice, attempts};
use domain::operations::State;
use domain::payments;
use foundation::db::Tx;
use foundation::error::Result;
use foundation::id::{AccountId, PaymentId};
use foundation::time::Timestamp;
use providers::{FailureCode, ProviderResponse};

/// Ends a payment whose charge was not sent, or certainly not processed, with its collection attempt. Returns `false`
/// and changes nothing if a request may have taken effect, or its card is being saved. The invoice is locked.
///
/// Lock order: the payment, the operation, which no worker can claim from then on.
///
/// # Errors
/// Database errors only.
pub async fn end_unsent(tx: &mut Tx, invoice: &Invoice, payment: PaymentId, now: Timestamp) -> Result<bool> {
    let account = invoice.account_id;
    let mut payment = payments::lock(tx, account, payment).await?;
    if !payment.status.is_under_way() {
        return Ok(false);
    }
    let Some((id, Locked { state: State::Ready, .. })) = charges::lock_charge(tx, account, payment.id).await? else {
        return Ok(false);
    };
    let code = FailureCode::Withdrawn;
    payment.fail(code)?;
    let response = ProviderResponse::Refused { code, reason: "its invoice is no longer to be charged".to_owned() };
    write_outcome(tx, id, &payment, &response, now).await?;
    attempt_stopped(tx, account, payment.id).await?;
    Ok(true)
}

/// Ends the collection attempt, if there is one, of a payment that was withdrawn because the merchant stopped collection.
/// This has no event.
pub async fn attempt_stopped(tx: &mut Tx, account: AccountId, payment: PaymentId) -> Result<()> {
    if let Some(attempt) = attempts::of_payment(tx, account, payment).await? {
        attempts::failed(tx, attempt.id, Failure::WITHDRAWN, None).await?;
        count_collections(CollectionOutcome::Stopped, 1);
    }
    Ok(())
}

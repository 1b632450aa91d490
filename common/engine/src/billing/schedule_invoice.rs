//! Schedules an invoice for collection, and cancels the schedule.

use crate::charge::outcome::unsent::end_unsent;
use domain::accounts::{self, Caller};
use domain::invoices::{self, Invoice, attempts};
use domain::payment_methods::{self, Status as CardStatus};
use foundation::db::{self, Db};
use foundation::error::{Error, Result};
use foundation::id::{InvoiceId, PaymentMethodId};
use foundation::time::Timestamp;

/// Schedules an open invoice for collection, with this card or with the customer's default card at the time of each
/// attempt.
///
/// # Errors
/// [`Error::NotFound`] for an unknown invoice or card; 422 `paymentMethodId` for another customer's card, or one that
/// is not saved; 422 `currency` or `amount` if the provider does not charge the invoice's; [`Error::Conflict`] for an
/// invoice that is not open, or whose customer was deleted.
pub async fn schedule_invoice(
    db: &Db,
    caller: &Caller,
    id: InvoiceId,
    collect_at: Timestamp,
    card: Option<PaymentMethodId>,
    now: Timestamp,
) -> Result<Invoice> {
    let mut tx = db.begin().await?;
    let mut invoice = invoices::lock(&mut tx, caller.account_id, id).await?;
    let mut provider_account = caller.provider_account_id;
    if let Some(card) = card {
        let card = payment_methods::retrieve(&mut tx, caller.account_id, card).await?;
        if card.customer_id != invoice.customer_id {
            return Err(Error::invalid("paymentMethodId", "the card belongs to another customer"));
        }
        if card.status != CardStatus::Active {
            return Err(Error::invalid("paymentMethodId", "the card is not saved and cannot be charged"));
        }
        provider_account = card.provider_account_id;
    }
    accounts::settlement(&mut *tx, provider_account).await?.require(invoice.money())?;
    invoices::schedule(&mut tx, &mut invoice, collect_at, card, now).await.map_err(map_deleted_customer)?;
    tx.commit().await?;
    Ok(invoice)
}

fn map_deleted_customer(error: Error) -> Error {
    if matches!(&error, Error::Database(cause) if db::violated_constraint(cause) == Some("invoices_customer")) {
        return Error::conflict("the customer was deleted, so the invoice can only be paid on its page");
    }
    error
}

/// Takes a scheduled invoice out of collection: it becomes open.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Conflict`] for one that is not scheduled, or while a request of an attempt may take
/// effect.
pub async fn cancel_schedule(db: &Db, caller: &Caller, id: InvoiceId, now: Timestamp) -> Result<Invoice> {
    let mut tx = db.begin().await?;
    let mut invoice = invoices::lock(&mut tx, caller.account_id, id).await?;
    // An attempt begins by locking the invoice, so none can begin from here on.
    if let Some(payment) = attempts::in_flight(&mut tx, caller.account_id, id).await?
        && !end_unsent(&mut tx, &invoice, payment, now).await?
    {
        return Err(Error::conflict("an attempt to collect the invoice is in flight"));
    }
    invoices::unschedule(&mut tx, &mut invoice).await?;
    tx.commit().await?;
    Ok(invoice)
}

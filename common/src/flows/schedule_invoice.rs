//! Scheduling an invoice for collection, and taking it back.

use crate::accounts::{self, Caller};
use crate::db::Db;
use crate::error::{Error, Result};
use crate::id::{InvoiceId, PaymentMethodId};
use crate::invoices::{self, Invoice, attempts};
use crate::payment_methods::{self, Status as CardStatus};
use crate::time::Timestamp;

/// Schedules an open invoice: with this card, or with the one that is the default when an attempt is made.
///
/// # Errors
/// [`Error::NotFound`] for an unknown invoice or card; 422 `paymentMethodId` for another customer's card, or one that is not
/// saved (yet); 422 `currency` if the account cannot be paid in that of the invoice; [`Error::Conflict`] for an invoice that is
/// not open.
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
    let mut settles = caller.provider_account_id;
    if let Some(card) = card {
        let card = payment_methods::retrieve(&mut tx, caller.account_id, card).await?;
        if card.customer_id != invoice.customer_id {
            return Err(Error::invalid("paymentMethodId", "the card is another customer's"));
        }
        if card.status != CardStatus::Active {
            return Err(Error::invalid("paymentMethodId", "the card is not saved (yet) and cannot be charged"));
        }
        settles = card.provider_account_id;
    }
    accounts::settlement(&mut *tx, settles).await?.require(invoice.currency)?;
    invoices::schedule(&mut tx, &mut invoice, collect_at, card, now).await?;
    tx.commit().await?;
    Ok(invoice)
}

/// Takes a scheduled invoice out of collection: it is open, and no longer collects itself.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Conflict`] for one that is not scheduled, or while an attempt is in flight.
pub async fn cancel_schedule(db: &Db, caller: &Caller, id: InvoiceId) -> Result<Invoice> {
    let mut tx = db.begin().await?;
    let mut invoice = invoices::lock(&mut tx, caller.account_id, id).await?;
    // Whoever begins an attempt locks the invoice first, so none begins from here on.
    if attempts::is_in_flight(&mut tx, caller.account_id, id).await? {
        return Err(Error::conflict("an attempt to collect the invoice is in flight"));
    }
    invoices::unschedule(&mut tx, &mut invoice).await?;
    tx.commit().await?;
    Ok(invoice)
}

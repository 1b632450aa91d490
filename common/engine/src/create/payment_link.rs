//! Creates a payment link.

use super::create_once;
use domain::accounts::Caller;
use domain::idempotency::{Created, CreationKey, CreationResult};
use domain::payment_links::{self, NewPaymentLink, PaymentLink, PaymentLinkView};
use foundation::db::Db;
use foundation::error::Result;
use foundation::time::Timestamp;

/// Creates a payment link.
///
/// # Errors
/// 422 `expiresAt` for a date that is not in the future; 422 for an idempotency key used with another body.
pub async fn create_payment_link(
    db: &Db,
    caller: &Caller,
    new: NewPaymentLink,
    key: Option<&CreationKey>,
    now: Timestamp,
) -> Result<CreationResult<PaymentLink>> {
    let link = &new.open(caller, now)?;
    let find = || payment_links::retrieve(&**db, caller.account_id, link.id, now);
    create_once(db, key, now, find, |mut tx| async move {
        payment_links::insert(&mut tx, link).await?;
        if let Some(key) = key {
            key.store_response(&mut tx, Created::PaymentLink(link.id), 201, &PaymentLinkView::new(link)).await?;
        }
        Ok((tx, link.clone()))
    })
    .await
}

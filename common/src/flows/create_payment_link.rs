//! Making a payment link.

use super::doubt::Doubt;
use crate::accounts::Caller;
use crate::db::Db;
use crate::error::Result;
use crate::idempotency::{self, Created, CreationKey, Made};
use crate::payment_links::{self, NewPaymentLink, PaymentLink, PaymentLinkView};
use crate::proof::failpoint;
use crate::time::Timestamp;

/// Makes a link.
///
/// # Errors
/// 422 `expiresAt` for a date that is not ahead; 422 for a key used with another body.
pub async fn create_payment_link(
    db: &Db,
    caller: &Caller,
    new: NewPaymentLink,
    key: Option<&CreationKey>,
    now: Timestamp,
) -> Result<Made<PaymentLink>> {
    let link = new.open(caller, now)?;
    let mut doubt = Doubt::default();
    loop {
        let tried = write(db, &link, key, now, &mut doubt).await;
        let find = async { payment_links::retrieve(db, caller.account_id, link.id, now).await.map(Made::New) };
        if let Some(written) = doubt.end(tried, find).await? {
            return Ok(written);
        }
    }
}

async fn write(
    db: &Db,
    link: &PaymentLink,
    key: Option<&CreationKey>,
    now: Timestamp,
    doubt: &mut Doubt,
) -> Result<Made<PaymentLink>> {
    let mut tx = db.begin().await?;
    if let Some(earlier) = idempotency::claim(&mut tx, key, now).await? {
        return Ok(Made::Earlier(earlier));
    }
    payment_links::insert(&mut tx, link).await?;
    if let Some(key) = key {
        key.keep(&mut tx, Created::PaymentLink(link.id), 201, &PaymentLinkView::new(link)).await?;
    }
    failpoint("create_payment_link.written").await?;
    doubt.send(tx.commit()).await?;
    failpoint("create_payment_link.committed").await?;
    Ok(Made::New(link.clone()))
}

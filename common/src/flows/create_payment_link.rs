//! Making a payment link.

use super::doubt::Doubt;
use crate::accounts::Caller;
use crate::db::Db;
use crate::error::Result;
use crate::payment_links::{self, NewPaymentLink, PaymentLink};
use crate::proof::failpoint;
use crate::time::Timestamp;

/// Makes a link.
///
/// # Errors
/// 422 `expiresAt` for a date that is not ahead.
pub async fn create_payment_link(db: &Db, caller: &Caller, new: NewPaymentLink, now: Timestamp) -> Result<PaymentLink> {
    let link = new.open(caller, now)?;
    let mut doubt = Doubt::default();
    loop {
        let tried = write(db, &link, &mut doubt).await.map(|()| link.clone());
        let find = payment_links::retrieve(db, caller.account_id, link.id, now);
        if let Some(written) = doubt.end(tried, find).await? {
            return Ok(written);
        }
    }
}

async fn write(db: &Db, link: &PaymentLink, doubt: &mut Doubt) -> Result<()> {
    let mut connection = db.acquire().await?;
    doubt.send(payment_links::insert(&mut connection, link)).await?;
    failpoint("create_payment_link.written").await
}

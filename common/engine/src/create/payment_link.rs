//! Creates a payment link.

use crate::ambiguous_commit::AmbiguousCommit;
use domain::accounts::Caller;
use domain::idempotency::{self, Created, CreationKey, CreationResult};
use domain::payment_links::{self, NewPaymentLink, PaymentLink, PaymentLinkView};
use foundation::db::Db;
use foundation::error::Result;
use foundation::failpoint;
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
    let link = new.open(caller, now)?;
    let mut commit = AmbiguousCommit::default();
    loop {
        let result = write(db, &link, key, now, &mut commit).await;
        let lookup =
            async { payment_links::retrieve(&**db, caller.account_id, link.id, now).await.map(CreationResult::New) };
        if let Some(written) = commit.resolve(result, lookup).await? {
            return Ok(written);
        }
    }
}

async fn write(
    db: &Db,
    link: &PaymentLink,
    key: Option<&CreationKey>,
    now: Timestamp,
    commit: &mut AmbiguousCommit,
) -> Result<CreationResult<PaymentLink>> {
    let mut tx = db.begin().await?;
    if let Some(earlier) = idempotency::claim(&mut tx, key, now).await? {
        return Ok(CreationResult::Earlier(earlier));
    }
    payment_links::insert(&mut tx, link).await?;
    if let Some(key) = key {
        key.store_response(&mut tx, Created::PaymentLink(link.id), 201, &PaymentLinkView::new(link)).await?;
    }
    failpoint!("create_payment_link.written");
    commit.send(tx.commit()).await?;
    failpoint!("create_payment_link.committed");
    Ok(CreationResult::New(link.clone()))
}

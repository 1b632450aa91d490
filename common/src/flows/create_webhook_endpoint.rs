//! Making a webhook endpoint. Its secret is made beforehand, so that it is the same whenever the whole runs again.

use super::doubt::Doubt;
use crate::accounts::Caller;
use crate::crypto::KeyRing;
use crate::db::Db;
use crate::error::Result;
use crate::idempotency::{self, Created, CreationKey, Made};
use crate::proof::failpoint;
use crate::time::Timestamp;
use crate::webhooks::EndpointView;
use crate::webhooks::endpoints::{self, NewEndpoint, WithSecret};

/// Makes an endpoint, with its secret.
///
/// # Errors
/// [`Error::Conflict`](crate::error::Error::Conflict) if the account has too many; 422 for a key used with another body.
pub async fn create_webhook_endpoint(
    db: &Db,
    encryption: &KeyRing,
    caller: &Caller,
    new: NewEndpoint,
    key: Option<&CreationKey>,
    now: Timestamp,
) -> Result<Made<WithSecret>> {
    let made = new.with_secret(now);
    let mut doubt = Doubt::default();
    loop {
        let tried = write(db, encryption, caller, &made, key, now, &mut doubt).await;
        let find = async {
            endpoints::retrieve(db, caller.account_id, made.endpoint.id).await?;
            Ok(Made::New(made.clone()))
        };
        if let Some(made) = doubt.end(tried, find).await? {
            return Ok(made);
        }
    }
}

async fn write(
    db: &Db,
    encryption: &KeyRing,
    caller: &Caller,
    made: &WithSecret,
    key: Option<&CreationKey>,
    now: Timestamp,
    doubt: &mut Doubt,
) -> Result<Made<WithSecret>> {
    let mut tx = db.begin().await?;
    if let Some(earlier) = idempotency::claim(&mut tx, key, now).await? {
        return Ok(Made::Earlier(earlier));
    }
    endpoints::insert(&mut tx, encryption, caller.account_id, made).await?;
    if let Some(key) = key {
        let (created, view) =
            (Created::WebhookEndpoint(made.endpoint.id), EndpointView::with_secret(made, caller.livemode()));
        key.keep_sealed(&mut tx, created, 201, &view, encryption).await?;
    }
    doubt.send(tx.commit()).await?;
    failpoint("create_webhook_endpoint.committed").await?;
    Ok(Made::New(made.clone()))
}

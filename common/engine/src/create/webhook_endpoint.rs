//! Creates a webhook endpoint. Its secret is generated before the transaction, so that a retry uses the same one.

use crate::ambiguous_commit::AmbiguousCommit;
use domain::accounts::Caller;
use domain::idempotency::{self, Created, CreationKey, CreationResult};
use domain::webhooks::EndpointView;
use domain::webhooks::endpoints::{self, NewEndpoint, WithSecret};
use foundation::crypto::KeyRing;
use foundation::db::Db;
use foundation::error::Result;
use foundation::failpoint;
use foundation::time::Timestamp;

/// Creates an endpoint with its secret.
///
/// # Errors
/// [`Error::Conflict`](foundation::error::Error::Conflict) if the account has too many; 422 for an idempotency key used with
/// another body.
pub async fn create_webhook_endpoint(
    db: &Db,
    encryption: &KeyRing,
    caller: &Caller,
    new: NewEndpoint,
    key: Option<&CreationKey>,
    now: Timestamp,
) -> Result<CreationResult<WithSecret>> {
    let created = new.with_secret(now);
    let mut commit = AmbiguousCommit::default();
    loop {
        let result = write(db, encryption, caller, &created, key, now, &mut commit).await;
        let lookup = async {
            endpoints::retrieve(db, caller.account_id, created.endpoint.id).await?;
            Ok(CreationResult::New(created.clone()))
        };
        if let Some(created) = commit.resolve(result, lookup).await? {
            return Ok(created);
        }
    }
}

async fn write(
    db: &Db,
    encryption: &KeyRing,
    caller: &Caller,
    created: &WithSecret,
    key: Option<&CreationKey>,
    now: Timestamp,
    commit: &mut AmbiguousCommit,
) -> Result<CreationResult<WithSecret>> {
    let mut tx = db.begin().await?;
    if let Some(earlier) = idempotency::claim(&mut tx, key, now).await? {
        return Ok(CreationResult::Earlier(earlier));
    }
    endpoints::insert(&mut tx, encryption, caller.account_id, created).await?;
    if let Some(key) = key {
        let (object, view) =
            (Created::WebhookEndpoint(created.endpoint.id), EndpointView::with_secret(created, caller.livemode()));
        key.store_sealed_response(&mut tx, object, 201, &view, encryption).await?;
    }
    commit.send(tx.commit()).await?;
    failpoint!("create_webhook_endpoint.committed");
    Ok(CreationResult::New(created.clone()))
}

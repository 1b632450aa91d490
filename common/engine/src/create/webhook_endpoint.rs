//! Creates a webhook endpoint. Its secret is generated before the transaction, so that a retry uses the same one.

use super::create_once;
use domain::accounts::Caller;
use domain::idempotency::{Created, CreationKey, CreationResult};
use domain::webhooks::EndpointView;
use domain::webhooks::endpoints::{self, NewEndpoint, WithSecret};
use foundation::crypto::KeyRing;
use foundation::db::Db;
use foundation::error::Result;
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
    let created = &new.with_secret(now);
    let (account, id) = (caller.account_id, created.endpoint.id);
    let find = || async move { endpoints::retrieve(db, account, id).await.map(|_| created.clone()) };
    create_once(db, key, now, find, |mut tx| async move {
        endpoints::insert(&mut tx, encryption, account, created).await?;
        if let Some(key) = key {
            let view = EndpointView::with_secret(created, caller.livemode());
            key.store_sealed_response(&mut tx, Created::WebhookEndpoint(id), 201, &view, encryption).await?;
        }
        Ok((tx, created.clone()))
    })
    .await
}

//! The creation of each object, with its idempotency key, in one transaction.

pub mod address;
pub mod customer;
pub mod default_address;
pub mod invoice;
pub mod payment_link;
pub mod plan;
pub mod quota;
pub mod recurring_invoice;
pub mod subscription;
pub mod webhook_endpoint;

use crate::ambiguous_commit::AmbiguousCommit;
use domain::idempotency::{self, CreationKey, CreationResult};
use foundation::db::{Db, Tx};
use foundation::error::Result;
use foundation::failpoint;
use foundation::time::Timestamp;

/// Creates an object whose id was generated beforehand, unless an earlier request has the same key. `insert` writes it and
/// its stored response into the transaction, which it returns, and may be called again. `find` reads an object whose COMMIT
/// got no response: a wrong error would make the merchant create a second one.
pub(crate) async fn create_once<T, F, I>(
    db: &Db,
    key: Option<&CreationKey>,
    now: Timestamp,
    find: impl Fn() -> F,
    insert: impl Fn(Tx) -> I,
) -> Result<CreationResult<T>>
where
    F: Future<Output = Result<T>>,
    I: Future<Output = Result<(Tx, T)>>,
{
    let mut commit = AmbiguousCommit::default();
    loop {
        let result: Result<CreationResult<T>> = async {
            let mut tx = db.begin().await?;
            if let Some(earlier) = idempotency::claim(&mut tx, key, now).await? {
                return Ok(CreationResult::Earlier(earlier));
            }
            let (tx, created) = insert(tx).await?;
            failpoint!("create.written");
            commit.send(tx.commit()).await?;
            failpoint!("create.committed");
            Ok(CreationResult::New(created))
        }
        .await;
        let lookup = async { find().await.map(CreationResult::New) };
        if let Some(created) = commit.resolve(result, |_| true, lookup).await? {
            return Ok(created);
        }
    }
}

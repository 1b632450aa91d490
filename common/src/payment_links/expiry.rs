//! Noting that links have expired. Whoever reads one knows by itself; this is for those who are to be told.

use sqlx::PgPool;

use super::{PaymentLink, Status, announce, store};
use crate::accounts::Scope;
use crate::db::Db;
use crate::error::Result;
use crate::events::EventType;
use crate::id::AccountId;
use crate::time::Timestamp;

/// Links of one run at most.
pub const EXPIRY_BATCH: i64 = 100;

/// Marks links as expired whose time is up, `limit` at most, and answers how many. Of any number who do so at once, each gets
/// others. One that is being paid is not due: the payment's outcome decides first.
///
/// # Errors
/// Only the database's.
pub async fn run_due_payment_links(db: &Db, scope: Scope, limit: i64) -> Result<usize> {
    let mut tx = db.begin().await?;
    if !scope.hold(&mut tx).await? {
        return Ok(0);
    }
    let due = match scope {
        Scope::Everyone(at) => store::lock_due(&mut tx, at, limit).await?,
        Scope::Account(account, now) | Scope::Advance(account, now) => {
            store::lock_due_of(&mut tx, account, now, limit).await?
        }
    };
    let count = due.len();
    for link in due {
        // It was read as expired; what is stored is that it was open.
        let mut link = PaymentLink { status: Status::Open, ..link };
        let now = link.as_of;
        link.step(Status::Expired)?;
        store::save(&mut tx, &link).await?;
        announce(&mut tx, &link, EventType::PaymentLinkExpired, now).await?;
    }
    tx.commit().await?;
    Ok(count)
}

/// When the next link of an account expires, by the account's clock.
///
/// # Errors
/// Only the database's.
pub async fn next_due(db: &PgPool, account: AccountId) -> Result<Option<Timestamp>> {
    store::next_due(db, account).await
}

/// For how many seconds the oldest link whose time is up has waited to be marked; none waits if it is 0.
///
/// # Errors
/// Only the database's.
pub async fn oldest_due_seconds(db: &PgPool, at: Timestamp) -> Result<f64> {
    store::oldest_due_seconds(db, at).await
}

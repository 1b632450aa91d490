//! Marks expired links. Reads already show an overdue link as expired; marking it sends the event.

use sqlx::PgPool;

use super::{PaymentLink, Status, announce, store};
use crate::accounts::Scope;
use crate::events::EventType;
use foundation::db::Db;
use foundation::error::Result;
use foundation::id::AccountId;
use foundation::time::Timestamp;

/// Maximum number of links per run.
pub const EXPIRY_BATCH: i64 = 100;

/// Marks up to `limit` overdue links as expired and returns their number. Concurrent runs process different links. A
/// link with a pending payment is not due: the payment's outcome decides first.
///
/// # Errors
/// Database errors only.
pub async fn run_due_payment_links(db: &Db, scope: Scope, limit: i64) -> Result<usize> {
    let mut tx = db.begin().await?;
    if !scope.hold(&mut tx).await? {
        return Ok(0);
    }
    let due = match scope {
        Scope::AllAccounts(at) => store::lock_due(&mut tx, at, limit).await?,
        Scope::Account(account, now) | Scope::Advance(account, now) => {
            store::lock_due_of_account(&mut tx, account, now, limit).await?
        }
    };
    let count = due.len();
    for link in due {
        // An overdue link is read as expired, but stored as open.
        let mut link = PaymentLink { status: Status::Open, ..link };
        let now = link.as_of;
        link.step(Status::Expired)?;
        store::save(&mut tx, &link).await?;
        announce(&mut tx, &link, EventType::PaymentLinkExpired, now).await?;
    }
    tx.commit().await?;
    Ok(count)
}

/// Returns when the next link of an account expires, by the account's clock.
///
/// # Errors
/// Database errors only.
pub async fn next_due(db: &PgPool, account: AccountId) -> Result<Option<Timestamp>> {
    store::next_due(db, account).await
}

/// Returns for how many seconds the oldest overdue link has been waiting to be marked; 0 if there is none.
///
/// # Errors
/// Database errors only.
pub async fn oldest_due_seconds(db: &PgPool, at: Timestamp) -> Result<f64> {
    store::oldest_due_seconds(db, at).await
}

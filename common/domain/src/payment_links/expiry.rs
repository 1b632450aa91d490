//! Marks expired links. Reads already show an overdue link as expired; marking it sends the event.

use sqlx::PgPool;

use super::{PaymentLink, Status, announce, lock_due, lock_due_of_account, save};
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
        Scope::AllAccounts(at) => lock_due(&mut tx, at, limit).await?,
        Scope::Account(account, now) | Scope::Advance(account, now) => {
            lock_due_of_account(&mut tx, account, now, limit).await?
        }
    };
    let count = due.len();
    for link in due {
        // An overdue link is read as expired, but stored as open.
        let mut link = PaymentLink { status: Status::Open, ..link };
        let now = link.as_of;
        link.step(Status::Expired)?;
        save(&mut tx, &mut link).await?;
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
    Ok(sqlx::query_scalar!(
        r#"SELECT expiry_due_at AS "due!" FROM payment_links
           WHERE expiry_due_at IS NOT NULL AND (account_id, expiry_due_at) >= ($1, '-infinity')
             AND (account_id, expiry_due_at) <= ($1, 'infinity') ORDER BY account_id, expiry_due_at LIMIT 1"#,
        account.uuid(),
    )
    .fetch_optional(db)
    .await?)
}

/// Returns for how many seconds the oldest overdue link has been waiting to be marked; 0 if there is none.
///
/// # Errors
/// Database errors only.
pub async fn oldest_due_seconds(db: &PgPool, at: Timestamp) -> Result<f64> {
    let seconds = sqlx::query_scalar!(
        r#"SELECT extract(epoch FROM $1::timestamptz - l.expiry_due_at)::float8 AS "seconds!" FROM payment_links l
           WHERE l.expiry_due_at <= $1 AND NOT is_advancing(l.account_id) ORDER BY l.expiry_due_at LIMIT 1"#,
        at,
    )
    .fetch_optional(db)
    .await?;
    Ok(seconds.unwrap_or(0.0))
}

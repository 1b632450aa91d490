//! Accounts whose test clock is ahead of everyone's time: what is due there by their own time, no scan for everyone sees.

use sqlx::PgPool;

use crate::error::Result;
use crate::id::AccountId;
use crate::time::Timestamp;

/// An account that is ahead, and its time.
#[derive(Clone, Copy, Debug)]
pub struct AccountAhead {
    /// The account.
    pub account: AccountId,
    /// What time it is there.
    pub now: Timestamp,
}

/// The accounts that are ahead, are not being advanced, and have something due: a line for each kind of it, along an index that
/// begins with the account. The cost follows the number of clocks. `now` is everyone's time.
///
/// # Errors
/// Only the database's.
pub async fn accounts_ahead_with_due(db: &PgPool, now: Timestamp) -> Result<Vec<AccountAhead>> {
    let rows = sqlx::query_as!(
        AccountAhead,
        r#"SELECT c.account_id AS account, n.now AS "now!"
           FROM test_clocks c CROSS JOIN LATERAL account_now(c.account_id, $1) AS n(now)
           WHERE c.ahead_us > 0 AND c.target IS NULL AND (
               EXISTS (SELECT 1 FROM payments p WHERE p.account_id = c.account_id AND p.inquiry_at <= n.now))"#,
        now,
    )
    .fetch_all(db)
    .await?;
    Ok(rows)
}

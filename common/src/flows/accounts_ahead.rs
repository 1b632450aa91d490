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

/// The accounts that are ahead, are not being advanced, and have something due: a line for each kind of it, which reads the first
/// entry of a range of an index that begins with the account. The cost follows the number of clocks.
///
/// # Errors
/// Only the database's.
pub async fn accounts_ahead_with_due(db: &PgPool) -> Result<Vec<AccountAhead>> {
    let rows = sqlx::query_as!(
        AccountAhead,
        r#"SELECT c.account_id AS account, n.now AS "now!"
           FROM test_clocks c CROSS JOIN LATERAL account_now(c.account_id, (SELECT clock_timestamp())) AS n(now)
           WHERE c.ahead_us > 0 AND c.target IS NULL AND n.now >= least(
               (SELECT p.inquiry_at FROM payments p WHERE p.inquiry_at IS NOT NULL
                    AND (p.account_id, p.inquiry_at) >= (c.account_id, '-infinity')
                    AND (p.account_id, p.inquiry_at) <= (c.account_id, 'infinity')
                ORDER BY p.account_id, p.inquiry_at LIMIT 1),
               (SELECT r.next_run_at FROM recurring_invoices r WHERE r.next_run_at IS NOT NULL
                    AND (r.account_id, r.next_run_at) >= (c.account_id, '-infinity')
                    AND (r.account_id, r.next_run_at) <= (c.account_id, 'infinity')
                ORDER BY r.account_id, r.next_run_at LIMIT 1),
               (SELECT l.expiry_due_at FROM payment_links l WHERE l.expiry_due_at IS NOT NULL
                    AND (l.account_id, l.expiry_due_at) >= (c.account_id, '-infinity')
                    AND (l.account_id, l.expiry_due_at) <= (c.account_id, 'infinity')
                ORDER BY l.account_id, l.expiry_due_at LIMIT 1),
               (SELECT i.next_attempt_at FROM invoices i WHERE i.next_attempt_at IS NOT NULL
                    AND (i.account_id, i.next_attempt_at) >= (c.account_id, '-infinity')
                    AND (i.account_id, i.next_attempt_at) <= (c.account_id, 'infinity')
                ORDER BY i.account_id, i.next_attempt_at LIMIT 1),
               (SELECT greatest(s.next_billing_at, s.retry_at) FROM subscriptions s WHERE s.next_billing_at IS NOT NULL
                    AND (s.account_id, greatest(s.next_billing_at, s.retry_at)) >= (c.account_id, '-infinity')
                    AND (s.account_id, greatest(s.next_billing_at, s.retry_at)) <= (c.account_id, 'infinity')
                ORDER BY s.account_id, greatest(s.next_billing_at, s.retry_at) LIMIT 1))"#,
    )
    .fetch_all(db)
    .await?;
    Ok(rows)
}

//! Accounts whose test clock is ahead of system time. Scans by system time do not see what is due by such a clock.

use sqlx::PgPool;

use foundation::error::Result;
use foundation::id::AccountId;
use foundation::time::Timestamp;

/// An account whose clock is ahead, and its current time.
#[derive(Clone, Copy, Debug)]
pub struct AdvancedClock {
    pub account: AccountId,
    pub now: Timestamp,
}

/// Returns the accounts whose clock is ahead, is not being advanced, and has work due. Each kind of work is one
/// subquery that reads the first entry of an index range beginning with the account, so the cost follows the number of
/// clocks.
///
/// # Errors
/// Database errors only.
pub async fn advanced_clocks_with_due_work(db: &PgPool) -> Result<Vec<AdvancedClock>> {
    let rows = sqlx::query_as!(
        AdvancedClock,
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

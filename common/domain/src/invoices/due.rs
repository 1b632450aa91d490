//! Invoices whose collection is due, or waits for a card.

use sqlx::{PgConnection, PgPool};

use crate::mutants;
use foundation::error::Result;
use foundation::id::{AccountId, CustomerId};
use foundation::time::Timestamp;

/// Makes invoices that wait for a new default card due immediately. The customer must be locked. Skips invoices with an
/// attempt in flight: when it fails, its outcome reads the customer's default card again.
///
/// # Errors
/// Database errors only.
pub async fn retry_waiting_for_card(
    tx: &mut PgConnection,
    account: AccountId,
    customer: CustomerId,
    now: Timestamp,
) -> Result<()> {
    mutants::lock_waiting_invoices_in_reverse(tx, account, customer).await?;
    sqlx::query!(
        "WITH waiting AS MATERIALIZED (
             SELECT i.id FROM invoices i
             WHERE i.account_id = $1 AND i.customer_id = $2 AND i.status = 'scheduled' AND i.next_attempt_at IS NULL
               AND NOT EXISTS (SELECT 1 FROM collection_attempts t
                               WHERE t.account_id = $1 AND t.invoice_id = i.id AND t.status = 'processing')),
         -- In the order of ids, because other transactions lock several of them too.
         held AS MATERIALIZED (
             SELECT locked.id FROM unnest(ARRAY(SELECT id FROM waiting ORDER BY id)) AS w (id)
             CROSS JOIN LATERAL (SELECT i.id FROM invoices i
                 WHERE i.id = w.id AND i.status = 'scheduled' AND i.next_attempt_at IS NULL FOR NO KEY UPDATE) locked)
         UPDATE invoices i SET next_attempt_at = $3 FROM held WHERE i.id = held.id",
        account.uuid(),
        customer.uuid(),
        now,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Returns when the next collection attempt of an account is due. Invoices with a live payment or an unreturned charge do
/// not count.
///
/// # Errors
/// Database errors only.
pub async fn next_due(db: &PgPool, account: AccountId) -> Result<Option<Timestamp>> {
    Ok(sqlx::query_scalar!(
        r#"SELECT i.next_attempt_at AS "due!" FROM invoices i WHERE i.next_attempt_at IS NOT NULL
             AND (i.account_id, i.next_attempt_at) >= ($1, '-infinity')
             AND (i.account_id, i.next_attempt_at) <= ($1, 'infinity')
             AND NOT EXISTS (SELECT 1 FROM payments p WHERE p.account_id = i.account_id AND p.invoice_id = i.id
                 AND is_live(p.status))
             AND NOT has_unreturned_charge(i.account_id, i.id)
           ORDER BY i.account_id, i.next_attempt_at LIMIT 1"#,
        account.uuid(),
    )
    .fetch_optional(db)
    .await?)
}

/// Returns for how many seconds the longest overdue collection attempt has been due; 0 if none is due.
///
/// # Errors
/// Database errors only.
pub async fn oldest_due_seconds(db: &PgPool, now: Timestamp) -> Result<f64> {
    let seconds = sqlx::query_scalar!(
        r#"SELECT extract(epoch FROM $1 - next_attempt_at)::float8 AS "waited!" FROM invoices
           WHERE next_attempt_at <= $1 ORDER BY next_attempt_at LIMIT 1"#,
        now,
    )
    .fetch_optional(db)
    .await?;
    Ok(seconds.unwrap_or(0.0))
}

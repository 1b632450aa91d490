//! What the domain does wrong while a test disables a rule (docs/chaos.md, Mutants). Each function does nothing
//! otherwise; a rule can be disabled in debug builds only.

use sqlx::PgConnection;

use foundation::error::Result;
use foundation::id::{AccountId, CustomerId};
use foundation::rule_enabled;

/// Without the rule `token`, a spent token can be spent again.
pub(crate) async fn restore_token(tx: &mut PgConnection, hash: &[u8], upstream_token: &str) -> Result<()> {
    if !rule_enabled!(Token) {
        let restored = "UPDATE payment_tokens SET spent_at = NULL, upstream_token = $2 WHERE token_hash = $1";
        sqlx::query(restored).bind(hash).bind(upstream_token).execute(tx).await?;
    }
    Ok(())
}

/// Without the rule `lock_order`, invoices that wait for a card are locked one by one, in reverse order.
pub(crate) async fn lock_waiting_invoices_in_reverse(
    tx: &mut PgConnection,
    account: AccountId,
    customer: CustomerId,
) -> Result<()> {
    if !rule_enabled!(LockOrder) {
        let locks = "SELECT pg_sleep(0.005) FROM (SELECT FROM invoices WHERE account_id = $1 AND customer_id = $2
                     AND status = 'scheduled' AND next_attempt_at IS NULL ORDER BY id DESC FOR NO KEY UPDATE) i";
        sqlx::query(locks).bind(account.uuid()).bind(customer.uuid()).execute(tx).await?;
    }
    Ok(())
}

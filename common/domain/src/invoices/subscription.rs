//! The invoices of a subscription.

use sqlx::PgConnection;

use foundation::error::Result;
use foundation::id::{AccountId, InvoiceId, SubscriptionId};

/// Whether the subscription has an unpaid invoice with a failed collection attempt. The subscription must be locked.
///
/// # Errors
/// Database errors only.
pub async fn has_failed_invoice(
    tx: &mut PgConnection,
    account: AccountId,
    subscription: SubscriptionId,
) -> Result<bool> {
    let found = sqlx::query_scalar!(
        r#"SELECT EXISTS (
               SELECT FROM invoices i
               JOIN collection_attempts t ON t.account_id = i.account_id AND t.invoice_id = i.id AND t.status = 'failed'
               WHERE i.account_id = $1 AND i.subscription_id = $2 AND i.status IN ('open', 'scheduled')) AS "owed!""#,
        account.uuid(),
        subscription.uuid(),
    )
    .fetch_one(tx)
    .await?;
    Ok(found)
}

/// Returns the scheduled invoices of a subscription in lock order. The subscription must be locked, so that no new ones
/// appear.
///
/// # Errors
/// Database errors only.
pub async fn scheduled_of_subscription(
    tx: &mut PgConnection,
    account: AccountId,
    subscription: SubscriptionId,
) -> Result<Vec<InvoiceId>> {
    let ids = sqlx::query_scalar!(
        "SELECT id FROM invoices WHERE account_id = $1 AND subscription_id = $2 AND status = 'scheduled' ORDER BY id",
        account.uuid(),
        subscription.uuid(),
    )
    .fetch_all(tx)
    .await?;
    Ok(ids)
}

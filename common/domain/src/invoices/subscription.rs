//! The invoices of a subscription.

use sqlx::PgConnection;

use super::status::Status;
use super::{lock, save, unschedule};
use foundation::db::Tx;
use foundation::error::Result;
use foundation::id::{AccountId, InvoiceId, SubscriptionId};

/// Takes the invoices of a subscription out of collection. An invoice with an attempt in flight stays, without further
/// retries. The subscription must be locked, so that no new invoices appear. Processes the invoices one by one: there
/// are few, except after a long outage.
///
/// # Errors
/// Database errors only.
pub async fn unschedule_subscription(tx: &mut Tx, account: AccountId, subscription: SubscriptionId) -> Result<()> {
    for id in scheduled(tx, account, subscription).await? {
        let mut invoice = lock(tx, account, id).await?;
        // Starting an attempt requires the invoice's lock, so the checks below hold until the commit.
        if invoice.status != Status::Scheduled {
            continue;
        }
        if is_being_collected(tx, account, id).await? {
            invoice.stop_retries();
            save(tx, &invoice).await?;
        } else {
            unschedule(tx, &mut invoice).await?;
        }
    }
    Ok(())
}

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

/// Returns the scheduled invoices in lock order.
async fn scheduled(tx: &mut PgConnection, account: AccountId, subscription: SubscriptionId) -> Result<Vec<InvoiceId>> {
    let ids = sqlx::query_scalar!(
        "SELECT id FROM invoices WHERE account_id = $1 AND subscription_id = $2 AND status = 'scheduled' ORDER BY id",
        account.uuid(),
        subscription.uuid(),
    )
    .fetch_all(tx)
    .await?;
    Ok(ids)
}

async fn is_being_collected(tx: &mut PgConnection, account: AccountId, id: InvoiceId) -> Result<bool> {
    let in_flight = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM collection_attempts WHERE account_id = $1 AND invoice_id = $2
                          AND status = 'processing') AS "in_flight!""#,
        account.uuid(),
        id.uuid(),
    )
    .fetch_one(tx)
    .await?;
    Ok(in_flight)
}

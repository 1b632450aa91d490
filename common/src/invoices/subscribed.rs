//! The invoices of a subscription.

use sqlx::PgConnection;

use super::{Status, lock, store, unschedule};
use crate::db::Tx;
use crate::error::Result;
use crate::id::{AccountId, InvoiceId, SubscriptionId};

/// Takes the invoices of a subscription out of collection, but for one with an attempt in flight, which is the last. The
/// subscription is locked, so there will be no more of them; there are few, unless it was billed for a long outage.
///
/// # Errors
/// Only the database's.
pub async fn unschedule_all_of(tx: &mut Tx, account: AccountId, subscription: SubscriptionId) -> Result<()> {
    for id in scheduled(tx, account, subscription).await? {
        let mut invoice = lock(tx, account, id).await?;
        // Whoever begins an attempt locks the invoice first, so what is asked from here on stays true.
        if invoice.status != Status::Scheduled {
            continue;
        }
        if is_being_collected(tx, account, id).await? {
            invoice.give_up();
            store::save(tx, &invoice).await?;
        } else {
            unschedule(tx, &mut invoice).await?;
        }
    }
    Ok(())
}

/// Whether an invoice of a subscription is owed after an attempt to collect it has failed. The subscription is locked.
///
/// # Errors
/// Only the database's.
pub async fn is_owed_after_failure(
    tx: &mut PgConnection,
    account: AccountId,
    subscription: SubscriptionId,
) -> Result<bool> {
    let owed = sqlx::query_scalar!(
        r#"SELECT EXISTS (
               SELECT FROM invoices i
               JOIN collection_attempts t ON t.account_id = i.account_id AND t.invoice_id = i.id AND t.status = 'failed'
               WHERE i.account_id = $1 AND i.subscription_id = $2 AND i.status IN ('open', 'scheduled')) AS "owed!""#,
        account.uuid(),
        subscription.uuid(),
    )
    .fetch_one(tx)
    .await?;
    Ok(owed)
}

/// In the order in which they are locked.
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

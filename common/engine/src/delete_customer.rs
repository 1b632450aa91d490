//! Deletes a customer: what is about the person is erased everywhere, in one transaction with the event. The customer's
//! own lock is enough: whatever is created for the customer refers to that row, and each insert checks it.

use sqlx::PgConnection;

use domain::accounts::Caller;
use domain::customers;
use domain::deleted::DeletedView;
use domain::events::{self, EventType};
use domain::payment_methods::{self, PaymentMethodView, Status as CardStatus};
use domain::{addresses, idempotency};
use foundation::db::Db;
use foundation::error::{Error, Result};
use foundation::id::{
    AccountId, CustomerId, InvoiceId, PaymentId, PaymentMethodId, RecurringInvoiceId, SubscriptionId,
};
use foundation::time::Timestamp;

/// Deletes a customer. Its cards are detached; payments and invoices stay.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Conflict`] while something that may still charge or bill the customer is in progress.
pub async fn delete_customer(db: &Db, caller: &Caller, id: CustomerId, now: Timestamp) -> Result<()> {
    let account = caller.account_id;
    let mut tx = db.begin().await?;
    customers::lock_for_deletion(&mut tx, account, id).await?;
    if let Some(obstacle) = find_obstacle(&mut tx, account, id).await? {
        return Err(Error::conflict(obstacle));
    }
    customers::erase(&mut tx, account, id, now).await?;
    let cards = payment_methods::erase_all(&mut tx, account, id, now).await?;
    idempotency::delete_for_customer(&mut tx, account, id).await?;
    addresses::delete_all(&mut tx, account, id).await?;
    let deleted = DeletedView::customer(id);
    let objects: Vec<_> =
        cards.iter().map(|card| DeletedView::payment_method(card.id)).chain([deleted.clone()]).collect();
    events::erase(&mut tx, account, &objects).await?;
    for card in cards.iter().filter(|card| card.status == CardStatus::Active) {
        let (kind, view) = (EventType::PaymentMethodDetached, PaymentMethodView::new(card));
        events::append(&mut tx, account, caller.livemode(), kind, &view, now).await?;
    }
    events::append(&mut tx, account, caller.livemode(), EventType::CustomerDeleted, &deleted, now).await?;
    Ok(tx.commit().await?)
}

/// What prevents the deletion, one of each kind.
struct Obstacles {
    subscription: Option<SubscriptionId>,
    recurring_invoice: Option<RecurringInvoiceId>,
    invoice: Option<InvoiceId>,
    payment: Option<PaymentId>,
    card: Option<PaymentMethodId>,
}

async fn find_obstacle(tx: &mut PgConnection, account: AccountId, id: CustomerId) -> Result<Option<String>> {
    let found = sqlx::query_as!(
        Obstacles,
        r#"SELECT
             (SELECT (array_agg(id))[1] FROM subscriptions WHERE account_id = $1 AND customer_id = $2 AND status <> 'cancelled') AS "subscription: SubscriptionId",
             (SELECT (array_agg(id))[1] FROM recurring_invoices WHERE account_id = $1 AND customer_id = $2
                AND status NOT IN ('completed', 'cancelled')) AS "recurring_invoice: RecurringInvoiceId",
             (SELECT (array_agg(id) FILTER (WHERE status = 'scheduled'))[1] FROM invoices
              WHERE account_id = $1 AND customer_id = $2) AS "invoice: InvoiceId",
             (SELECT (array_agg(id))[1] FROM payments WHERE account_id = $1 AND customer_id = $2
                AND (status IN ('processing', 'requires_action', 'authorized') OR pending_operation IS NOT NULL
                     OR status = 'partially_authorized' AND amount_captured = 0)) AS "payment: PaymentId",
             (SELECT (array_agg(id))[1] FROM payment_methods WHERE account_id = $1 AND customer_id = $2
                AND status = 'processing' AND awaits_operation_id IS NULL) AS "card: PaymentMethodId""#,
        account.uuid(),
        id.uuid(),
    )
    .fetch_one(tx)
    .await?;
    let Obstacles { subscription, recurring_invoice, invoice, payment, card } = found;
    Ok(subscription
        .map(|id| format!("the customer's subscription {id} has not ended; cancel it first"))
        .or_else(|| {
            recurring_invoice.map(|id| format!("the customer's recurring invoice {id} has not ended; cancel it first"))
        })
        .or_else(|| invoice.map(|id| format!("the customer's invoice {id} is scheduled; cancel its schedule first")))
        .or_else(|| payment.map(|id| format!("the customer's payment {id} is held or in progress")))
        .or_else(|| card.map(|id| format!("the customer's card {id} is being saved"))))
}

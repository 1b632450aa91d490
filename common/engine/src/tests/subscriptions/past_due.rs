//! The past-due state of a subscription after failed attempts, and the effect of a cancellation on its invoices.

use uuid::Uuid;

use super::{Shop, at};
use crate::void_invoice;
use domain::invoices;
use domain::plans::Interval;
use domain::subscriptions::{self, Status, Subscription};
use foundation::id::{InvoiceId, SubscriptionId};

const NOW: &str = "2026-01-10T00:00:00Z";

/// A subscription with three billed cycles, and their invoices.
async fn billed(shop: &Shop) -> (Subscription, [InvoiceId; 3]) {
    let subscription = shop.subscribed(Interval::Day, "2026-01-08", "2026-01-08T00:00:00Z").await;
    shop.run(NOW).await;
    let ids: Vec<Uuid> = sqlx::query_scalar("SELECT id FROM invoices WHERE subscription_id = $1 ORDER BY number")
        .bind(subscription.id.uuid())
        .fetch_all(&*shop.db)
        .await
        .expect("invoices");
    let ids: Vec<_> = ids.into_iter().map(InvoiceId::from_uuid).collect();
    (subscription, ids.try_into().expect("three"))
}

/// Records a failed attempt to collect an invoice, as its outcome does.
async fn fail(shop: &Shop, subscription: SubscriptionId, invoice: InvoiceId) -> Status {
    let mut tx = shop.db.begin().await.expect("begun");
    let account = shop.caller.account_id;
    let mut subscription = subscriptions::lock(&mut tx, account, subscription).await.expect("locked");
    invoices::lock(&mut tx, account, invoice).await.expect("locked");
    sqlx::query(
        "INSERT INTO collection_attempts (id, account_id, invoice_id, number, status, amount, decline_code, decline_type,
            attempted_at)
         SELECT gen_random_uuid(), $1, $2, count(*) + 1, 'failed', 2900, 'no_payment_method', 'hard', now()
         FROM collection_attempts WHERE invoice_id = $2",
    )
    .bind(account.uuid())
    .bind(invoice.uuid())
    .execute(&mut *tx)
    .await
    .expect("written");
    subscriptions::invoice_failed(&mut tx, &mut subscription, at(NOW)).await.expect("recorded");
    tx.commit().await.expect("committed");
    subscription.status
}

/// Marks an invoice as paid, as far as its subscription can see.
async fn pay(shop: &Shop, subscription: SubscriptionId, invoice: InvoiceId) -> Status {
    let mut tx = shop.db.begin().await.expect("begun");
    let mut subscription = subscriptions::lock(&mut tx, shop.caller.account_id, subscription).await.expect("locked");
    sqlx::query(
        "WITH paid AS (
             INSERT INTO payments (id, account_id, provider_account_id, invoice_id, status, capture, currency,
                 amount_requested, amount, provider_ref, created_at)
             SELECT gen_random_uuid(), i.account_id, p.id, i.id, 'settled', true, 'USD', i.amount, i.amount,
                 i.id::text, now()
             FROM invoices i JOIN provider_accounts p ON p.account_id = i.account_id WHERE i.id = $1 RETURNING id)
         UPDATE invoices SET status = 'paid', paid_at = now(), amount_paid = amount, payment_id = paid.id,
             collect_at = NULL, next_attempt_at = NULL
         FROM paid WHERE invoices.id = $1",
    )
    .bind(invoice.uuid())
    .execute(&mut *tx)
    .await
    .expect("written");
    subscriptions::invoice_paid(&mut tx, &mut subscription).await.expect("recorded");
    tx.commit().await.expect("committed");
    subscription.status
}

async fn past_due_events(shop: &Shop, id: SubscriptionId) -> usize {
    shop.events(id).await.iter().filter(|kind| *kind == "subscription.past_due").count()
}

#[tokio::test]
async fn subscriptions_are_past_due_until_no_failed_invoice_is_unpaid() {
    let shop = Shop::open().await;
    let (subscription, [first, second, third]) = billed(&shop).await;
    assert_eq!(pay(&shop, subscription.id, third).await, Status::Active);
    assert_eq!(fail(&shop, subscription.id, first).await, Status::PastDue);
    assert_eq!(fail(&shop, subscription.id, first).await, Status::PastDue);
    assert_eq!(fail(&shop, subscription.id, second).await, Status::PastDue);
    assert_eq!(past_due_events(&shop, subscription.id).await, 1, "one event per change");
    assert_eq!(pay(&shop, subscription.id, first).await, Status::PastDue, "the other is still unpaid");
    shop.run("2026-01-11T00:00:00Z").await;
    let stored = shop.stored(subscription.id).await;
    assert_eq!(stored.status, Status::PastDue, "billing another cycle does not change it");
    assert_eq!(shop.periods(subscription.id).await.len(), 4, "the next cycle is billed anyway");
    assert_eq!(
        pay(&shop, subscription.id, second).await,
        Status::Active,
        "an invoice without a failed attempt does not count"
    );
    assert_eq!(fail(&shop, subscription.id, second).await, Status::PastDue);
    assert_eq!(past_due_events(&shop, subscription.id).await, 2);
}

#[tokio::test]
async fn voided_invoices_do_not_count_as_unpaid() {
    let shop = Shop::open().await;
    let (subscription, [first, second, third]) = billed(&shop).await;
    for invoice in [first, second] {
        fail(&shop, subscription.id, invoice).await;
    }
    for (invoice, expected) in [(third, Status::PastDue), (first, Status::PastDue), (second, Status::Active)] {
        void_invoice(&shop.db, &shop.caller, invoice, at(NOW)).await.expect("voided");
        assert_eq!(shop.stored(subscription.id).await.status, expected);
    }
    void_invoice(&shop.db, &shop.caller, second, at(NOW)).await.expect("voided again");
    assert_eq!(shop.stored(subscription.id).await.status, Status::Active);
}

#[tokio::test]
async fn cancelled_subscriptions_ignore_their_invoices() {
    let shop = Shop::open().await;
    let (subscription, [first, second, third]) = billed(&shop).await;
    fail(&shop, subscription.id, first).await;
    shop.cancel(&subscription, NOW).await;
    assert_eq!(fail(&shop, subscription.id, second).await, Status::Cancelled);
    assert_eq!(pay(&shop, subscription.id, first).await, Status::Cancelled);
    void_invoice(&shop.db, &shop.caller, third, at(NOW)).await.expect("voided");
    assert_eq!(shop.stored(subscription.id).await.status, Status::Cancelled);
    assert_eq!(past_due_events(&shop, subscription.id).await, 1);
}

#[tokio::test]
async fn cancellations_unschedule_invoices_without_an_attempt_in_flight() {
    let shop = Shop::open().await;
    let (subscription, [first, second, third]) = billed(&shop).await;
    let (other, _) = billed(&shop).await;
    fail(&shop, subscription.id, first).await;
    shop.write("UPDATE invoices SET next_attempt_at = NULL, series_started_at = now() WHERE id = $1", first.uuid())
        .await;
    pay(&shop, subscription.id, third).await;
    // An attempt for the second is in flight; any payment will do for it.
    let begin =
        "INSERT INTO collection_attempts (id, account_id, invoice_id, number, status, amount, payment_id, attempted_at)
                 SELECT gen_random_uuid(), account_id, $1, 1, 'processing', 2900, id, now() FROM payments";
    shop.write(begin, second.uuid()).await;
    shop.write("UPDATE invoices SET next_attempt_at = NULL, series_started_at = now() WHERE id = $1", second.uuid())
        .await;
    let cancelled = shop.cancel(&subscription, NOW).await;
    assert_eq!((cancelled.status, cancelled.cancelled_at), (Status::Cancelled, Some(at(NOW))));
    assert_eq!((cancelled.next_billing_at, cancelled.next_billing_date), (None, None));
    assert_eq!(shop.invoice_column(subscription.id, "status").await, ["open", "scheduled", "paid"]);
    assert_eq!(
        shop.invoice_column(subscription.id, "collect_at IS NULL AND series_started_at IS NULL").await,
        ["true", "false", "true"]
    );
    assert_eq!(shop.invoice_column(other.id, "status").await, ["scheduled"; 3], "other subscriptions are unaffected");
}

//! What is owed after an attempt to collect it failed, and what a cancellation leaves.

use uuid::Uuid;

use super::{Shop, at};
use crate::flows::void_invoice;
use crate::id::{InvoiceId, SubscriptionId};
use crate::invoices;
use crate::plans::Interval;
use crate::subscriptions::{self, Status, Subscription};

const NOW: &str = "2026-01-10T00:00:00Z";

/// One of three cycles, with its invoices.
async fn billed(shop: &Shop) -> (Subscription, [InvoiceId; 3]) {
    let made = shop.subscribed(Interval::Day, "2026-01-08", "2026-01-08T00:00:00Z").await;
    shop.run(NOW).await;
    let ids: Vec<Uuid> = sqlx::query_scalar("SELECT id FROM invoices WHERE subscription_id = $1 ORDER BY number")
        .bind(made.id.uuid())
        .fetch_all(&*shop.db)
        .await
        .expect("invoices");
    let ids: Vec<_> = ids.into_iter().map(InvoiceId::from_uuid).collect();
    (made, ids.try_into().expect("three"))
}

/// An attempt to collect an invoice has failed, as its outcome writes it.
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
    subscriptions::invoice_failed(&mut tx, &mut subscription, at(NOW)).await.expect("told");
    tx.commit().await.expect("committed");
    subscription.status
}

/// An invoice was paid, as far as its subscription can see.
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
    subscriptions::invoice_paid(&mut tx, &mut subscription).await.expect("told");
    tx.commit().await.expect("committed");
    subscription.status
}

async fn told_of_past_due(shop: &Shop, id: SubscriptionId) -> usize {
    shop.events(id).await.iter().filter(|kind| *kind == "subscription.past_due").count()
}

#[tokio::test]
async fn it_is_past_due_until_nothing_that_failed_is_owed() {
    let shop = Shop::open().await;
    let (made, [first, second, third]) = billed(&shop).await;
    assert_eq!(pay(&shop, made.id, third).await, Status::Active);
    assert_eq!(fail(&shop, made.id, first).await, Status::PastDue);
    assert_eq!(fail(&shop, made.id, first).await, Status::PastDue);
    assert_eq!(fail(&shop, made.id, second).await, Status::PastDue);
    assert_eq!(told_of_past_due(&shop, made.id).await, 1, "once for the change");
    assert_eq!(pay(&shop, made.id, first).await, Status::PastDue, "the other is owed still");
    shop.run("2026-01-11T00:00:00Z").await;
    let shown = shop.shown(made.id).await;
    assert_eq!(shown.status, Status::PastDue, "another cycle pays nothing");
    assert_eq!(shop.periods(made.id).await.len(), 4, "and is billed all the same");
    assert_eq!(pay(&shop, made.id, second).await, Status::Active, "what was never tried has not failed");
    assert_eq!(fail(&shop, made.id, second).await, Status::PastDue);
    assert_eq!(told_of_past_due(&shop, made.id).await, 2);
}

#[tokio::test]
async fn what_is_voided_is_owed_no_more() {
    let shop = Shop::open().await;
    let (made, [first, second, third]) = billed(&shop).await;
    for invoice in [first, second] {
        fail(&shop, made.id, invoice).await;
    }
    for (invoice, expected) in [(third, Status::PastDue), (first, Status::PastDue), (second, Status::Active)] {
        void_invoice(&shop.db, &shop.caller, invoice, at(NOW)).await.expect("voided");
        assert_eq!(shop.shown(made.id).await.status, expected);
    }
    void_invoice(&shop.db, &shop.caller, second, at(NOW)).await.expect("voided again");
    assert_eq!(shop.shown(made.id).await.status, Status::Active);
}

#[tokio::test]
async fn a_cancelled_one_stays_so_whatever_becomes_of_its_invoices() {
    let shop = Shop::open().await;
    let (made, [first, second, third]) = billed(&shop).await;
    fail(&shop, made.id, first).await;
    shop.cancel(&made, NOW).await;
    assert_eq!(fail(&shop, made.id, second).await, Status::Cancelled);
    assert_eq!(pay(&shop, made.id, first).await, Status::Cancelled);
    void_invoice(&shop.db, &shop.caller, third, at(NOW)).await.expect("voided");
    assert_eq!(shop.shown(made.id).await.status, Status::Cancelled);
    assert_eq!(told_of_past_due(&shop, made.id).await, 1);
}

#[tokio::test]
async fn a_cancellation_takes_out_of_collection_what_no_attempt_is_at() {
    let shop = Shop::open().await;
    let (made, [first, second, third]) = billed(&shop).await;
    let (other, _) = billed(&shop).await;
    fail(&shop, made.id, first).await;
    shop.write("UPDATE invoices SET next_attempt_at = NULL, series_started_at = now() WHERE id = $1", first.uuid())
        .await;
    pay(&shop, made.id, third).await;
    // An attempt at the second is in flight: it is named by a payment, of which any will do here.
    let begin =
        "INSERT INTO collection_attempts (id, account_id, invoice_id, number, status, amount, payment_id, attempted_at)
                 SELECT gen_random_uuid(), account_id, $1, 1, 'processing', 2900, id, now() FROM payments";
    shop.write(begin, second.uuid()).await;
    shop.write("UPDATE invoices SET next_attempt_at = NULL, series_started_at = now() WHERE id = $1", second.uuid())
        .await;
    let cancelled = shop.cancel(&made, NOW).await;
    assert_eq!((cancelled.status, cancelled.cancelled_at), (Status::Cancelled, Some(at(NOW))));
    assert_eq!((cancelled.next_billing_at, cancelled.next_billing_date), (None, None));
    assert_eq!(shop.of_invoices(made.id, "status").await, ["open", "scheduled", "paid"]);
    assert_eq!(
        shop.of_invoices(made.id, "collect_at IS NULL AND series_started_at IS NULL").await,
        ["true", "false", "true"]
    );
    assert_eq!(shop.of_invoices(other.id, "status").await, ["scheduled"; 3], "and nobody else's");
}

//! What a provider tells of a charge while something else becomes of it.

use super::{Shop, at};
use crate::clock::Clock;
use crate::crypto::{EncryptionKey, KeyRing};
use crate::flows::inquire::note;
use crate::flows::{Funding, PaymentRequest, Taken, perform, reconcile, take_payment};
use crate::id::{OperationId, PaymentId};
use crate::money::Money;
use crate::operations::{self, Origin};
use crate::payments;
use crate::providers::{ProviderKind, Providers, Standing, mock::Mock};

const NOW: &str = "2026-01-10T00:00:00Z";

impl Shop {
    fn providers(&self) -> Providers {
        Providers::new(Mock::new((*self.db).clone()), None)
    }

    /// A payment whose charge nobody has sent yet.
    async fn begun(&self, capture: bool) -> (PaymentId, OperationId) {
        let request = PaymentRequest {
            money: Money { minor: 900, currency: "USD".parse().expect("a currency") },
            funding: Funding::Token("tok_ok".into()),
            capture,
            return_url: None,
            idempotency_key: None,
        };
        let key = KeyRing::new(EncryptionKey::from_hex(&"00".repeat(32)).expect("a key"), vec![]);
        let taken = take_payment(&self.db, &self.caller, &request, &Origin::default(), &key, at(NOW)).await;
        let Taken::New(payment, operation) = taken.expect("taken") else { panic!("no key was sent") };
        (payment.id, operation)
    }

    async fn of_payment(&self, payment: PaymentId, column: &str) -> String {
        let query = format!("SELECT coalesce(({column})::text, '') FROM payments WHERE id = $1");
        let query = sqlx::query_scalar(sqlx::AssertSqlSafe(query)).bind(payment.uuid());
        query.fetch_one(&*self.db).await.expect("there")
    }
}

#[tokio::test]
async fn what_was_told_before_a_capture_says_nothing_after_it() {
    let shop = Shop::open().await;
    let (providers, clock) = (shop.providers(), Clock::fixed(at(NOW)));
    let (payment, operation) = shop.begun(false).await;
    perform(&shop.db, &providers, &clock, operation).await.expect("performed").expect("its end");
    assert_eq!(shop.of_payment(payment, "status").await, "authorized");

    // The provider has told until when the hold lasts, and the capture comes to its end before that is noted.
    let read = payments::inquiry(&shop.db, payment, at(NOW)).await.expect("read").expect("it is asked about");
    let capture = "UPDATE payments SET status = 'pending_settlement', amount_captured = amount,
                       captured_at = '2026-01-10T00:00:00Z', inquiry_at = '2026-01-10T00:01:00Z' WHERE id = $1";
    shop.write(capture, payment.uuid()).await;
    let told = Standing::Open { until: Some(at("2026-01-17T00:00:00Z")) };
    note(&shop.db, &clock, &read, told).await.expect("noted");
    let asked_at = async |when: &str| shop.of_payment(payment, &format!("inquiry_at = '{when}'")).await;
    assert_eq!(asked_at("2026-01-10T00:01:00Z").await, "true", "asked about when it may have settled");

    // What is told of the capture is noted.
    let read = payments::inquiry(&shop.db, payment, at(NOW)).await.expect("read").expect("it is asked about");
    let told = Standing::Open { until: Some(at("2026-01-11T00:00:00Z")) };
    note(&shop.db, &clock, &read, told).await.expect("noted");
    assert_eq!(asked_at("2026-01-11T00:00:00Z").await, "true");
}

#[tokio::test]
async fn what_a_worker_has_is_left_to_it_however_long_ago_it_was_written() {
    let shop = Shop::open().await;
    let (providers, clock) = (shop.providers(), Clock::fixed(at(NOW)));
    let (payment, operation) = shop.begun(true).await;
    let claimed = operations::claim(&shop.db, operation, clock.now()).await.expect("asked").expect("free");
    let mock = providers.get(ProviderKind::Mock).expect("it is always there");
    mock.execute(claimed.request.clone()).await.expect("charged");
    // It was written in an outage, and sent just now.
    let written = "UPDATE operations SET created_at = created_at - interval '1 hour' WHERE id = $1";
    shop.write(written, operation.uuid()).await;
    let read = async || reconcile(&shop.db, &providers, &clock, shop.caller.provider_account_id).await.expect("read");
    read().await;
    assert_eq!(shop.of_payment(payment, "status").await, "processing", "the worker writes it");

    // The worker is gone: the next reading comes by the same line.
    let gone = "UPDATE operations SET lease_until = clock_timestamp() - interval '1 second' WHERE id = $1";
    shop.write(gone, operation.uuid()).await;
    read().await;
    assert_eq!(shop.of_payment(payment, "status").await, "pending_settlement");
}
